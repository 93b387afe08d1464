"""Exceptions of remote code, and how their state is stored."""
