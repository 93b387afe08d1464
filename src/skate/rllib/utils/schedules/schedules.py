"""Schedules: functions of the number of steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any


def _on_the_line(left: Any, right: Any, part: float) -> Any:
    return left + part * (right - left)


def _positive(steps: int) -> int:
    if steps <= 0:
        raise ValueError(f"schedule_timesteps must be a positive number of steps, got {steps}")
    return steps


class Schedule(ABC):
    """A value for each step; an instance is called with the step.

    Args:
        framework: Taken for compatibility.
    """

    def __init__(self, framework: str | None) -> None:
        self.framework = framework

    def value(self, t: Any) -> Any:
        """Return the value at step `t`."""
        return self._value(t)

    def __call__(self, t: Any) -> Any:
        return self.value(t)

    @abstractmethod
    def _value(self, t: Any) -> Any:
        """Compute the value at step `t`."""


class ConstantSchedule(Schedule):
    """One value at all steps."""

    def __init__(self, value: float, framework: str | None = None) -> None:
        super().__init__(framework)
        self._v = value

    def _value(self, t: Any) -> Any:
        return self._v


class PiecewiseSchedule(Schedule):
    """Values at some steps, and values between them.

    Args:
        endpoints: Pairs of a step and its value, by step.
        framework: Taken for compatibility.
        interpolation: Takes the values on the left and on the right, and the part of the way between them.
        outside_value: The value before the first step and from the last one on.

    Raises:
        ValueError: the steps are not in order; or, when called, a step is outside of them and there is no `outside_value`.
    """

    def __init__(
        self,
        endpoints: Sequence[tuple[int, float]],
        framework: str | None = None,
        interpolation: Callable[[Any, Any, Any], Any] = _on_the_line,
        outside_value: float | None = None,
    ) -> None:
        super().__init__(framework)
        steps = [step for step, _ in endpoints]
        if not steps or steps != sorted(steps):
            raise ValueError(
                f"endpoints={endpoints!r}: give pairs (step, value), in the order of their steps"
            )
        self.endpoints = [(int(step), float(value)) for step, value in endpoints]
        self.interpolation = interpolation
        self.outside_value = outside_value

    def _value(self, t: Any) -> Any:
        for (left, low), (right, high) in zip(self.endpoints, self.endpoints[1:], strict=False):
            if left <= t < right:
                return self.interpolation(low, high, (t - left) / (right - left))
        if self.outside_value is None:
            raise ValueError(f"step {t} is outside of the endpoints {self.endpoints}; set outside_value")
        return self.outside_value


class PolynomialSchedule(Schedule):
    """Goes from `initial_p` to `final_p` within `schedule_timesteps`, by a power of the part that is left."""

    def __init__(
        self,
        schedule_timesteps: int,
        final_p: float,
        framework: str | None,
        initial_p: float = 1.0,
        power: float = 2.0,
    ) -> None:
        super().__init__(framework)
        self.schedule_timesteps = _positive(schedule_timesteps)
        self.final_p = final_p
        self.initial_p = initial_p
        self.power = power

    def _value(self, t: Any) -> Any:
        left = 1.0 - min(t, self.schedule_timesteps) / self.schedule_timesteps
        return self.final_p + (self.initial_p - self.final_p) * left**self.power


class LinearSchedule(PolynomialSchedule):
    """Goes from `initial_p` to `final_p` along a line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(power=1.0, **kwargs)


class ExponentialSchedule(Schedule):
    """Falls from `initial_p` to its product with `decay_rate` within `schedule_timesteps`, and on."""

    def __init__(
        self,
        schedule_timesteps: int,
        framework: str | None = None,
        initial_p: float = 1.0,
        decay_rate: float = 0.1,
    ) -> None:
        super().__init__(framework)
        self.schedule_timesteps = _positive(schedule_timesteps)
        self.initial_p = initial_p
        self.decay_rate = decay_rate

    def _value(self, t: Any) -> Any:
        return self.initial_p * self.decay_rate ** (t / self.schedule_timesteps)
