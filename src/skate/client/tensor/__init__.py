"""Tensors that travel beside the object store, and channels of compiled graphs."""
