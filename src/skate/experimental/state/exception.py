"""The older name of `ray.util.state.exception`."""

from __future__ import annotations

from skate.util.state.exception import *  # noqa: F403
