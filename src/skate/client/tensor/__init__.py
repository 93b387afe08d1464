"""Tensors that are sent outside the object store, and channels of compiled graphs."""
