"""The actor of one worker: it sets up the process, runs the training function, and answers the controller."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from skate.train.worker import session as sessions
from skate.train.worker.allocator import keep_freed_memory
from skate.train.worker.session import Session
from skate.train.worker.train_function import call


class TrainWorker:
    """One worker of a run; calls come from the controller, several at a time."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._thread: int | None = None
        self._rank = -1

    def __repr__(self) -> str:
        return "TrainWorker" if self._rank < 0 else f"TrainWorker rank={self._rank}"

    # -- before

    def whereabouts(self) -> dict[str, Any]:
        """Return the location of this process: node, address, a free port, process id, and its assigned GPUs."""
        import skate  # loaded in every worker, but not yet when this module is imported

        context = skate.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        return {
            "node": context.get_node_id(),
            "ip": skate.util.get_node_ip_address(),
            "port": _free_port(),
            "pid": os.getpid(),
            "gpus": gpus,
        }

    def environ(self, values: Mapping[str, str]) -> None:
        """Set environment variables."""
        os.environ.update(values)

    def execute(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function in this process."""
        return function(*args, **kwargs)

    def begin(self, session: Session) -> None:
        """Set up this worker's part of the run."""
        self._session = session
        self._rank = session.place.world_rank
        rename = getattr(sys.stdout, "rename", None)
        if rename is not None:  # otherwise the stream has been replaced
            rename(f"TrainWorker rank={self._rank}")
        sessions.begin(session)

    # -- during

    def train(self, function: Callable[..., Any], config: Any, around: Callable[[], Any]) -> Any:
        """Run the training function within the framework's context; rank 0's return value is the run's."""
        session = self._session
        assert session is not None
        self._thread = threading.get_ident()
        keep_freed_memory()
        try:
            with around():
                value = call(function, config)
            session.settle_uploads(wait=True)
        finally:
            session.close()
            self._thread = None
        if inspect.isgenerator(value):
            raise TypeError(
                "cannot pickle 'generator' object: the training function has returned a generator"
            )
        return value if self._rank == 0 else None

    def messages(self) -> list[tuple[Any, ...]]:
        """Return the messages of the training function since the last call; waits a while if there are none."""
        assert self._session is not None
        return self._session.messages()

    def release(self, kind: str, number: int, value: Any) -> None:
        """Let the ranks continue after a sync point."""
        assert self._session is not None
        self._session.release(kind, number, value)

    def stack(self) -> str:
        """Return the current position of the training function, as a traceback; empty if it does not run."""
        frame = sys._current_frames().get(self._thread or -1)
        if frame is None:
            return ""
        return "".join(traceback.format_list(_of_the_user(traceback.extract_stack(frame))))

    def end(self, reason: str) -> None:
        """Abort the waits of the training function, because the run ends or restarts."""
        if self._session is not None:
            self._session.end(reason)
        sessions.leave()


def _free_port() -> int:
    import socket  # loaded by the worker, to keep the driver's start fast

    with socket.socket() as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port


_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def _of_the_user(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The frames of the training function and its callees, up to where it waits in this package; all if there are
    none.
    """
    ours = [each.filename.startswith(_PACKAGE) for each in frames]
    begins = max((at for at, each in enumerate(frames) if ours[at] and each.name == "call"), default=-1) + 1
    kept = frames[begins:]
    for at, each in enumerate(kept):
        # the function of this package that it called, by its public name
        if each.filename.startswith(_PACKAGE):
            return kept[: at + 1]
    return kept or frames
