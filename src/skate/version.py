"""The versions of Skate and of the API that it implements."""

__version__ = "0.1.0"
RAY_VERSION = "2.60.0"
