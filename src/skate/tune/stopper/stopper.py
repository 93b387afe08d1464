"""The contract of a stopper, one that never stops, and one made of several."""

from __future__ import annotations

import abc
from typing import Any


class Stopper(abc.ABC):
    """Says after each result whether its trial ends, and at any time whether all do."""

    @abc.abstractmethod
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial ends with this result."""

    @abc.abstractmethod
    def stop_all(self) -> bool:
        """Whether the whole search ends."""


class NoopStopper(Stopper):
    """Never stops anything."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Never."""
        return False


class CombinedStopper(Stopper):
    """Stops when any of several stoppers does.

    Raises:
        TypeError: one of them is no stopper.
    """

    def __init__(self, *stoppers: Stopper) -> None:
        for each in stoppers:
            if not isinstance(each, Stopper):
                raise TypeError(f"CombinedStopper takes stoppers, not {type(each).__name__}: {each!r:.80}")
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return any([each(trial_id, result) for each in self._stoppers])  # noqa: C419 - each keeps count of all results

    def stop_all(self) -> bool:
        """When any of them says so."""
        return any(each.stop_all() for each in self._stoppers)
