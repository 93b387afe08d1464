"""What Tune tells of an experiment, hook by hook."""

from __future__ import annotations

from typing import Any


class Callback:
    """Subclass it and override what you want to be told of; `trial` has a name, a config and a folder."""

    def setup(self, stop: Any = None, num_samples: int | None = None, **info: Any) -> None:
        """Called once, before all else."""

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called before each turn of the loop over trials."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called after each turn of the loop over trials."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has started."""

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has gone back to a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has written a checkpoint."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Called for each result."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has ended well."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has failed and will be tried again."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial has failed for good."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """Called for each checkpoint, with the checkpoint."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Called once, after all else."""

    def get_state(self) -> dict[str, Any] | None:
        """What to keep for an experiment that is resumed; None for nothing."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Take back what `get_state` gave."""
