"""Skate's own engine: transformers models on CPUs, with continuous batching."""
