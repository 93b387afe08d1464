"""Spilled values on disk or in external storage."""
