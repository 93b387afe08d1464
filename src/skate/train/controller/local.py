"""A run without workers: the training function in the calling process, with everything else as in a run that has them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skate.train.controller.history import History
from skate.train.worker import session as sessions
from skate.train.worker.calling import call
from skate.train.worker.session import Place, Session


class _Here(Session):
    """Meetings of one rank take place at once."""

    def tell(self, *news: Any) -> None:
        _, kind, number, what = news
        if kind == "collective":
            self.release(kind, number, what)
            return
        checkpoint = self.history.take((what,), 1)
        for callback in self.callbacks:
            callback.after_report(self.run_context, [dict(what.metrics)], checkpoint)
        self.release(kind, number, (self.history.latest, self.history.reported()) if checkpoint else None)

    history: History
    callbacks: list[Any]
    run_context: Any


def execute_here(run: Any) -> tuple[History, Any]:
    """Run a training function in this process; its history, and what it returned.

    Raises:
        RuntimeError: a run is under way in this process.
        Exception: what the training function raises, as it is.
    """
    from skate.train.controller.controller import (
        RunContext,  # it knows of the workers, which this has none of
    )

    if sessions.active():
        raise RuntimeError("a run is under way in this process; num_workers=0 runs one at a time")
    run.folder.create()
    history = History(run.folder, run.run_config.checkpoint_config)
    history.load()
    shards = run.data_config.configure(run.datasets, 1, None, None)[0]
    session = _Here(
        Place(0, 1),
        run.folder,
        _stamp(),
        history.latest or run.resume_from,
        shards,
        run.config,
        controlled=False,
    )
    session.history = history
    session.callbacks = list(run.run_config.callbacks or ())
    session.run_context = RunContext(run)
    sessions.begin(session)
    try:
        value = call(run.function, run.config)
        session.settle_uploads(wait=True)
        return history, value
    finally:
        session.close()
        sessions.leave()
        history.close()


def _stamp() -> str:
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S.%f}"
