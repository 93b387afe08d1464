"""Learners: losses, gradients and optimizers of modules."""
