"""Training functions for PyTorch."""
