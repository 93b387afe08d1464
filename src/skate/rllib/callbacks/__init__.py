"""Callbacks: hooks of a user into an algorithm's life, its environments and its episodes."""
