"""The names of accelerators, under the module in which Ray defines them."""

from __future__ import annotations

from skate.util.accelerators.names import *  # noqa: F403
