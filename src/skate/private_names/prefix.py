"""The prefix of the modules of private names."""

from __future__ import annotations

#: With this prefix, a worker can import the modules that a function uses.
PREFIX = "skate.private_names.ray."
