"""What searches cost: beside Ray Tune, and beside what a program would write without either."""
