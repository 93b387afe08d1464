"""Versions: Skate's own, and that of the API it implements."""

__version__ = "0.1.0"
RAY_VERSION = "2.60.0"
