"""Local mode: a node whose workers are not processes."""
