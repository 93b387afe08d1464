"""Types of collective operations."""
