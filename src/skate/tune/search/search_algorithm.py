"""The contract between a search and the source of its trials."""

from __future__ import annotations

from typing import Any


class SearchAlgorithm:
    """Creates trials, and receives their results."""

    _finished = False
    _metric: Any = None

    @property
    def metric(self) -> Any:
        """The metric of the search, None if there is none."""
        return self._metric

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space from the search; False if they are already set."""
        return True

    @property
    def total_samples(self) -> int:
        """The total number of trials; 0 if unknown."""
        return 0

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments to create trials from."""
        raise NotImplementedError

    def next_trial(self) -> Any:
        """Return the next trial; None if there is none now."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called with each result of a trial."""

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Called when a trial has ended."""

    def is_finished(self) -> bool:
        """True if there will be no more trials."""
        return self._finished

    def set_finished(self) -> None:
        """Create no more trials."""
        self._finished = True

    def has_checkpoint(self, dirpath: str) -> bool:
        """True if a folder has a saved state of this class."""
        return False

    def save_to_dir(self, dirpath: str, **kwargs: Any) -> None:
        """Save the state to a folder."""

    def restore_from_dir(self, dirpath: str) -> None:
        """Load the state from a folder."""

    def replay(self, trial_id: str, number: int) -> None:
        """Restore the state after the creation of a trial that is known from the journal."""
