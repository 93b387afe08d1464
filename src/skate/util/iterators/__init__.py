"""Iterators: results as they are ready, and the parts behind `ray.util.iter`."""
