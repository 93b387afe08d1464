"""The cost of searches: beside Ray Tune, and beside a program without either."""
