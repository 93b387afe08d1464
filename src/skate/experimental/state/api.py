"""The older name of `ray.util.state.api`."""

from __future__ import annotations

from skate.util.state.api import *  # noqa: F403
