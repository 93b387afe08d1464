"""Public but unstable parts of Serve."""
