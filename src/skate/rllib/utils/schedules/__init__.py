"""Settings that change with the number of steps."""

from __future__ import annotations

from skate.rllib.utils.schedules.scheduler import Scheduler

__all__ = ["Scheduler"]
