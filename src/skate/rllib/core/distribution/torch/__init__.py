"""Distributions of actions over torch tensors."""
