"""The older name of `ray.util.state.common`."""

from __future__ import annotations

from skate.util.state.common import *  # noqa: F403
