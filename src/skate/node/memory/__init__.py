"""The memory of a node: the arena file, overflow files, and memory readings from the kernel."""
