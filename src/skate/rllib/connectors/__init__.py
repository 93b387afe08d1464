"""Connectors: steps between environments and modules, and between episodes and batches."""
