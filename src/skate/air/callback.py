"""Callbacks of a search, hook by hook."""

from __future__ import annotations

from typing import Any


class Callback:
    """Base class of callbacks; pass instances to `RunConfig(callbacks=[...])`. Methods run in the process
    that called `fit`.

    A trial has a name, a config and a folder: `str(trial)`, `trial.config`, `trial.local_path`.
    """

    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        """Called once, before anything else."""

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called at the beginning of each iteration of the loop."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called at the end of each iteration of the loop."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial starts or restarts."""

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial resumes from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a class trainable has been saved."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Called when a trial has reported."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial has ended successfully."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial has failed and will restart."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial has failed permanently."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """Called when a trial has a new checkpoint."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Called when the search has ended."""

    def get_state(self) -> dict[Any, Any] | None:
        """The state to save for a restored search; None for nothing."""
        return None

    def set_state(self, state: dict[Any, Any]) -> None:
        """Restore the state from `get_state`."""
