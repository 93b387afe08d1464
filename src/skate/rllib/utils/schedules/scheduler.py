"""Scheduler: a number that is fixed, or goes from point to point along a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Schedule = float | Sequence[Sequence[float]]


class Scheduler:
    """A fixed number, or a piecewise linear function of the number of environment steps.

    Args:
        fixed_value_or_schedule: A number, or ``[[step, value], ...]`` whose first step is 0. After the last point the
            value stays.
        framework: Taken for compatibility.
        device: Taken for compatibility.
    """

    def __init__(
        self, fixed_value_or_schedule: Schedule, *, framework: str = "torch", device: Any = None
    ) -> None:
        self.use_schedule = isinstance(fixed_value_or_schedule, list | tuple)
        self._points: list[tuple[float, float]] = []
        if isinstance(fixed_value_or_schedule, list | tuple):
            self._points = [(float(step), float(value)) for step, value in fixed_value_or_schedule]
            self._value: Any = self._points[0][1]
        else:
            self._value = fixed_value_or_schedule

    @staticmethod
    def validate(*, fixed_value_or_schedule: Any, setting_name: str, description: str) -> None:
        """Check a setting.

        Args:
            fixed_value_or_schedule: What the user gave.
            setting_name: Name of the setting, for the error.
            description: What its values are, for the error.

        Raises:
            ValueError: it is neither a number nor a schedule.
        """
        given = fixed_value_or_schedule
        if given is None or isinstance(given, int | float):
            return
        form = f"{setting_name}={given!r}: give a number, or [[0, first {description}], [step, {description}], ...]"
        if not isinstance(given, list | tuple) or len(given) < 2:
            raise ValueError(f"{form} with at least two points")
        if any(not isinstance(point, list | tuple) or len(point) != 2 for point in given):
            raise ValueError(f"{form}; every point is a pair")
        if given[0][0] != 0:
            raise ValueError(f"{form}; the first step has to be 0, not {given[0][0]}")

    def get_current_value(self) -> Any:
        """Return the value at the last step that was given to :meth:`update`."""
        return self._value

    def update(self, timestep: int) -> Any:
        """Move to a step and return the value there.

        Args:
            timestep: Number of environment steps since the beginning.
        """
        if self.use_schedule:
            self._value = self._at(timestep)
        return self._value

    def restore(self, value: Any) -> None:
        """Take the value that a schedule had when its state was saved; a fixed number stays."""
        if self.use_schedule:
            self._value = value

    def _at(self, step: float) -> float:
        for (left, low), (right, high) in zip(self._points, self._points[1:], strict=False):
            if left <= step < right:
                return low + (high - low) * (step - left) / (right - left)
        return self._points[-1][1] if step >= self._points[-1][0] else self._points[0][1]
