"""Iterators: results as they become ready, and the parts of `ray.util.iter`."""
