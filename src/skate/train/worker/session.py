"""The run as seen by a worker: its identity, the connection to the controller, and state for the training function.

The training function runs in its own thread. Its messages (it has reached a report or a barrier) go into a
queue, which the controller empties with a call that waits for messages; another call returns the replies. So
a report costs two actor calls and no polling.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage.run_folder import RunFolder

#: The longest wait of the controller for messages, so that a lost controller is noticed.
_MESSAGE_WAIT_SECONDS = 5.0
#: Functions of Train that Tune has, too.
_ALSO_OF_TUNE = ("report", "get_context", "get_checkpoint")


@dataclass(frozen=True)
class Place:
    """The identity of this worker."""

    world_rank: int
    world_size: int
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0


@dataclass(frozen=True)
class Reported:
    """One worker's part of a report."""

    metrics: dict[str, Any]
    #: The name of the checkpoint in the run's folder to which it has added files, or None.
    name: str | None = None
    #: A checkpoint that is already stored elsewhere.
    elsewhere: Checkpoint | None = None
    validation: Any = False
    seconds: float = 0.0


class Announced:
    """The value of a sync point by which workers ask for announced preemptions."""


@dataclass
class Session:
    """One worker's side of a run."""

    place: Place
    folder: RunFolder
    #: Prefix of checkpoint names, so that no two attempts use the same name.
    stamp: str = ""
    latest: Checkpoint | None = None
    shards: Mapping[str, Any] = field(default_factory=dict)
    config: Any = None
    #: True if there is a controller in another process; without one every sync point has one rank.
    controlled: bool = True

    def __post_init__(self) -> None:
        self._lock = threading.Condition()
        self._messages: deque[tuple[Any, ...]] = deque()
        self._released: dict[tuple[str, int], Any] = {}
        #: Background reports that have not been processed yet, and the last one that has.
        self._background: set[int] = set()
        self._newest = -1
        self._counts = {"report": 0, "collective": 0, "question": 0}
        self._pool: ThreadPoolExecutor | None = None
        self._uploads: deque[Future[None]] = deque()
        self._ended = ""
        self._over = False
        self.checkpoints: list[Any] = []
        #: The driver's settings for datasets, None if it has not used any.
        self.data_context: Any = None

    def __reduce__(self) -> Any:
        given = (self.place, self.folder, self.stamp, self.latest, self.shards, self.config)
        return _made, (*given, self.controlled, self.checkpoints, self.data_context)

    # -- messages to and from the controller

    def next_number(self, kind: str) -> int:
        """Return the number of the next sync point of a kind, which all ranks count alike, or of the next question."""
        with self._lock:
            number = self._counts[kind]
            self._counts[kind] = number + 1
            return number

    def send(self, *message: Any) -> None:
        """Add a message to the controller's queue."""
        with self._lock:
            self._messages.append(message)
            self._lock.notify_all()

    def messages(self) -> list[tuple[Any, ...]]:
        """Return all messages in the queue; waits a while if it is empty."""
        with self._lock:
            self._lock.wait_for(lambda: self._messages or self._ended or self._over, _MESSAGE_WAIT_SECONDS)
            found = list(self._messages)
            self._messages.clear()
            return found

    def release(self, kind: str, number: int, value: Any) -> None:
        """Let the training function continue after a sync point."""
        with self._lock:
            if kind == "report" and value is not None and number > self._newest:
                self._newest = number
                self.latest, self.checkpoints = value
            if kind == "report" and number in self._background:
                self._background.remove(number)
            else:
                self._released[kind, number] = value
            self._lock.notify_all()

    def end(self, reason: str) -> None:
        """Raise an error in all waits, because the run continues without this worker."""
        with self._lock:
            self._ended = reason
            self._lock.notify_all()

    def await_release(self, kind: str, number: int) -> Any:
        """Wait until all ranks have reached a sync point, or a question is answered.

        Raises:
            RuntimeError: the run was ended meanwhile.
        """
        with self._lock:
            self._lock.wait_for(lambda: (kind, number) in self._released or self._ended)
            if (kind, number) not in self._released:
                raise RuntimeError(f"the run ended while this worker waited: {self._ended}")
            return self._released.pop((kind, number))

    # -- uploads in the background

    def upload_later(self, number: int, work: Any) -> None:
        """Run a report's work after all earlier work, in another thread; its release has no waiter."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "skate-upload")
        with self._lock:
            self._background.add(number)
        self._uploads.append(self._pool.submit(work))

    def await_background(self) -> None:
        """Wait until all background reports have been processed.

        Raises:
            RuntimeError: the run was ended meanwhile.
            Exception: the error of a failed upload.
        """
        self.settle_uploads(wait=True)
        with self._lock:
            self._lock.wait_for(lambda: not self._background or self._ended)
            if self._background:
                raise RuntimeError(f"the run ended while this worker waited: {self._ended}")

    def settle_uploads(self, wait: bool) -> None:
        """Raise the error of an upload that has failed; with `wait`, once all have ended."""
        while self._uploads and (wait or self._uploads[0].done()):
            self._uploads.popleft().result()

    def close(self) -> None:
        """Record that the training function has ended."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        with self._lock:
            self._over = True
            self._lock.notify_all()


def _made(*given: Any) -> Session:
    *fields, checkpoints, data_context = given
    session = Session(*fields)
    session.checkpoints = checkpoints
    session.data_context = data_context
    return session


_current: list[Session | None] = [None]


def begin(session: Session) -> None:
    """Make this process the given worker."""
    _current[0] = session
    if session.data_context is not None:
        type(session.data_context)._set_current(session.data_context)


def leave() -> None:
    """Mark this process as no longer a worker."""
    _current[0] = None


def current(called: str) -> Session:
    """Return the session of this process.

    Raises:
        RuntimeError: this process is not a worker of a run; `called` is the called function.
        DeprecationWarning: this process runs a trial of a search, for which Tune has a function of that name.
    """
    session = _current[0]
    if session is None:
        name = called.rpartition(".")[2].removesuffix("()")
        if name in _ALSO_OF_TUNE and _in_trial():
            raise DeprecationWarning(
                f"`ray.train.{name}` is deprecated when running in a function passed to Ray Tune: call ray.tune.{name} there"
            )
        raise RuntimeError(
            f"`{name}` cannot be used outside of a Ray Train training function: "
            f"call ray.train.{called} in the function that "
            "TorchTrainer(train_loop_per_worker=...) runs in each worker, not in the program that calls fit()"
        )
    return session


def _in_trial() -> bool:
    module = sys.modules.get("skate.tune.trainable.session")
    return module is not None and module.spec() is not None


def active() -> bool:
    """True if this process is a worker of a run."""
    return _current[0] is not None
