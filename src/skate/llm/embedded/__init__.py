"""The embedded engine: transformers models on CPUs, with continuous batching."""
