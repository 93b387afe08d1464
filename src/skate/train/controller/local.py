"""A run without workers: the training function runs in the calling process; everything else is as in other runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skate.train.controller.history import History
from skate.train.controller.observers import Observers
from skate.train.errors import ControllerError
from skate.train.worker import session as sessions
from skate.train.worker.session import Place, Session
from skate.train.worker.train_function import call


class _LocalSession(Session):
    """Meetings of one rank complete immediately."""

    def send(self, *message: Any) -> None:
        _, kind, number, what = message
        if kind == "collective":
            self.release(kind, number, what)
            return
        self.watchers.spans.arrived(0, kind, number)
        checkpoint = self.history.take((what,), 1)
        self.watchers.reported(number, (what,), checkpoint)
        self.release(kind, number, (self.history.latest, self.history.reported()) if checkpoint else None)

    history: History
    watchers: Observers


def execute_locally(run: Any) -> tuple[History, Any]:
    """Run a training function in this process; return its history, and its return value.

    Raises:
        RuntimeError: a run is in progress in this process.
        Exception: the error of the training function, unchanged.
    """
    if sessions.active():
        raise RuntimeError("a run is in progress in this process; num_workers=0 runs one at a time")
    run.folder.create()
    history = History(run.folder, run.run_config.checkpoint_config)
    history.load()
    shards = run.data_config.configure(run.datasets, 1, None, None)[0]
    session = _LocalSession(
        Place(0, 1),
        run.folder,
        _stamp(),
        history.latest or run.resume_from,
        shards,
        run.config,
        controlled=False,
    )
    session.history = history
    session.watchers = watchers = Observers(run)
    try:
        with watchers.whole_run(len(history.rows)):
            return history, _execute(run, session)
    finally:
        history.close()


def _execute(run: Any, session: _LocalSession) -> Any:
    sessions.begin(session)
    session.watchers.progress.starting(1, 1)
    try:
        session.watchers.progress.started()
        value = call(run.function, run.config)
        session.settle_uploads(wait=True)
        return value
    except Exception as error:  # report any error of the training function, then let it propagate
        if not isinstance(error, ControllerError):
            session.watchers.callbacks.failed([(0, error)], f"rank 0 failed: {error!r}")
        raise
    finally:
        session.close()
        sessions.leave()


def _stamp() -> str:
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S.%f}"
