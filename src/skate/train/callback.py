"""What a user may be told during a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.train.checkpoint import Checkpoint


class UserCallback:
    """Subclass it and give instances to `RunConfig(callbacks=[...])`; methods run in the process that called `fit`."""

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        """Called once all workers have reported: the metrics of each by rank, and the checkpoint if there is one."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Called when workers have failed: the exceptions by rank."""
