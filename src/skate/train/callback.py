"""User callbacks of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.train.checkpoint import Checkpoint


class RayTrainCallback:
    """The base class of callbacks of a run."""


class UserCallback(RayTrainCallback):
    """Subclass it and give instances to `RunConfig(callbacks=[...])`; methods run in the process that called `fit`.

    An exception in one of them ends the run with a `ControllerError` that names the callback. `before_run`
    and `after_run` are Skate's own additions.
    """

    def before_run(self, run_context: Any) -> None:
        """Called once, before the workers start."""

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        """Called once all workers have reported: the metrics of each by rank, and the checkpoint if there is one."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Called when workers have failed: the exceptions by rank."""

    def after_run(self, run_context: Any, error: BaseException | None) -> None:
        """Called once, after the workers have ended, regardless of the outcome; `error` is the exception that
        `fit` raises.
        """
