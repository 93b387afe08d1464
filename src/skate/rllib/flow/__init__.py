"""Pure machines that decide which runner does what, with kills, restarts and time-outs."""
