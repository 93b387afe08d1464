"""Connectors that stand on either way."""
