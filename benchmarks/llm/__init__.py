"""Tokens a second of the embedded engine: against a bare loop, against transformers' own batching, and through HTTP."""
