"""The session of a process: init, shutdown, and its connection to a node."""
