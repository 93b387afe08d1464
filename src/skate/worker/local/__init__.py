"""Local mode: a node whose workers are no processes."""
