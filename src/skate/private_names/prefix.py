"""The prefix of the modules of private names."""

from __future__ import annotations

#: The modules have this prefix, so that functions which use them can be sent to workers.
PREFIX = "skate.private_names.ray."
