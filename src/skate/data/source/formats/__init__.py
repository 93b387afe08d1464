"""Formats of files: one file a format, with its datasource and its datasink."""
