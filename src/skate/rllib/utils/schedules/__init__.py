"""Settings that change with the number of steps."""

from __future__ import annotations

from skate.rllib.utils.schedules.scheduler import Scheduler
from skate.rllib.utils.schedules.schedules import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    PolynomialSchedule,
    Schedule,
)

__all__ = [
    "ConstantSchedule",
    "ExponentialSchedule",
    "LinearSchedule",
    "PiecewiseSchedule",
    "PolynomialSchedule",
    "Schedule",
    "Scheduler",
]
