"""The names of accelerators, by the module that Ray defines them in."""

from __future__ import annotations

from skate.util.accelerators.names import *  # noqa: F403
