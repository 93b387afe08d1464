"""Shared memory: the arena allocator, admission of new values, spilling, memory pressure."""
