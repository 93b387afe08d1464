"""The contract of a stopper, one that never stops, and a combination of several."""

from __future__ import annotations

from typing import Any


class Stopper:
    """Decides after each result if the trial ends, and at any time if the search ends."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """True if the trial ends with this result."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(trial_id, result)")

    def stop_all(self) -> bool:
        """True if the whole search ends."""
        raise NotImplementedError(f"{type(self).__name__} must define stop_all()")


class NoopStopper(Stopper):
    """Never stops anything."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """False: the search never ends early."""
        return False


class CombinedStopper(Stopper):
    """Stops when any of several stoppers stops.

    Raises:
        TypeError: one of them is not a stopper.
    """

    def __init__(self, *stoppers: Stopper) -> None:
        for each in stoppers:
            if not isinstance(each, Stopper):
                raise TypeError(f"CombinedStopper takes stoppers, got {type(each).__name__}: {each!r:.80}")
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return any([each(trial_id, result) for each in self._stoppers])  # noqa: C419 - each keeps count of all results

    def stop_all(self) -> bool:
        """True if any of the stoppers ends the search."""
        return any(each.stop_all() for each in self._stoppers)
