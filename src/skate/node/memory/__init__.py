"""The memory of a node: the arena file, overflow files, and what the kernel says of memory."""
