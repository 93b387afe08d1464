"""ObjectRef: a reference to a value that exists or will exist."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from skate.client.tensor.made_refs import made
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, REMOTE, UNKNOWN
from skate.wire import values

if TYPE_CHECKING:
    import concurrent.futures

    from skate.client.core.owner import Owner
    from skate.client.session.link import Link

T = TypeVar("T")

_KINDS = {
    PENDING: "pending",
    INLINE: "ready",
    ARENA: "ready",
    ERROR: "failed",
    UNKNOWN: "elsewhere",
    REMOTE: "not in memory here",
}
_current: list[Any] = [None]
#: The environment variable, of Ray's name, that with 0 forbids to pickle refs outside of tasks and values.
_ALLOW_PICKLING = "RAY_allow_out_of_band_object_ref_serialization"
#: Marks a failed ref whose error was read.
SEEN = "seen"


class SeenHeld(list[Any]):
    """The same mark for an error that contains refs: a list of them."""


class ObjectRef(Generic[T]):
    """A reference to the result of a task or to a put value.

    There is one ObjectRef per object and process, which holds the state of the value in the process. `grants` counts the
    messages, from or to the node, that record a hold of this process on the object. While it is zero, no other process has a ref
    to the object, and deleting the ref sends no message.
    """

    __slots__ = (
        "_id",
        "_process",
        "_kind",
        "_value",
        "_held",
        "_grants",
        "_waiters",
        "_site",
        "_views",
        "__weakref__",
    )

    def __init__(
        self, oid: bytes, process: Owner | None = None, kind: int = UNKNOWN, value: Any = None
    ) -> None:
        self._id = oid
        self._process = process
        self._kind = kind
        self._grants = 0
        if len(oid) != 28:
            raise ValueError(f"the id of an object needs to have length 28, got {len(oid)} bytes")
        self._value = value
        self._held: Any = None
        self._waiters: list[Callable[[], None]] | None = None
        self._site: Any = None
        #: One entry per view of the value, or of a caller about to take one; see `client.views`.
        self._views: list[None] | None = None

    def __del__(self) -> None:
        if self._kind == ERROR and self._process is not None and not self._grants and _unseen(self._held):
            self._process.report_unhandled(self._value, self._site)
        if self._grants:
            # Other threads can still find this ref through a weak reference until this returns; without grants it counts as gone.
            grants, self._grants = self._grants, 0
            process = self._process
            if process is not None:
                process.release_later(self._id, grants)

    def __reduce__(self) -> Any:
        met = values.collector()
        if met is not None:
            met.append(self)
        else:
            if os.environ.get(_ALLOW_PICKLING, "1").lower() in ("0", "false"):
                from skate import exceptions  # needed by few programs

                raise exceptions.OufOfBandObjectRefSerializationException(
                    f"{self!r} is pickled outside of Skate, which would keep its value for as long as this process lives, "
                    f"and {_ALLOW_PICKLING}=0 forbids that. Pass the ref to a task, or return it, or allow it again"
                )
            if self._process is not None:
                self._process.keep_forever(self)
        return _rebuild, (self._id,)

    def __copy__(self) -> ObjectRef[T]:
        return self

    def __deepcopy__(self, memo: Any) -> ObjectRef[T]:
        return self

    def _is_ready(self) -> bool:
        return self._kind != PENDING

    # -- public methods

    def binary(self) -> bytes:
        """Return the id as 28 bytes."""
        return self._id

    def hex(self) -> str:
        """Return the id as 56 hexadecimal digits."""
        return self._id.hex()

    def is_nil(self) -> bool:
        """Return True for the nil id, which names no object."""
        return self._id == b"\xff" * 28

    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """Return the nil ref, which names no object."""
        return cls(b"\xff" * 28)

    @classmethod
    def size(cls) -> int:
        """Return the length of an id in bytes."""
        return 28

    @classmethod
    def from_binary(cls, id: bytes) -> ObjectRef[Any]:
        """Return a ref for an id in this session. It keeps the object, which must still exist, alive."""
        process = _current[0]
        if process is not None and id not in process.pending and process._known(id) is None:
            # Only the garbage collector can find refs that never left this process.
            for each in gc.get_objects():
                if type(each) is ObjectRef and each._id == id and each._process is process:
                    return each
        return _rebuild(id)

    @classmethod
    def from_hex(cls, hex: str) -> ObjectRef[Any]:
        """Return the ref for an id of 56 hexadecimal digits; see `from_binary`."""
        return cls.from_binary(bytes.fromhex(hex))

    @classmethod
    def from_random(cls) -> ObjectRef[Any]:
        """Return a ref with a random id, which names no object."""
        return cls(os.urandom(28))

    def task_id(self) -> Any:
        """Return the id of the task that creates the value."""
        from skate.core import ids  # only users need id objects

        return ids.TaskID(ids.task_of(self._id))

    def job_id(self) -> Any:
        """Return the id of the job that the object belongs to."""
        from skate.core import ids  # only users need id objects

        return ids.JobID(ids.job_of(self._id))

    def owner_address(self) -> bytes:
        """Return the owner's address, which is empty: the node owns all objects."""
        return b""

    def call_site(self) -> str:
        """Return the file and line that submitted the task, or an empty string if unknown."""
        return site_text(self._site) or ""

    def tensor_transport(self) -> str:
        """Return how tensors in the value travel."""
        known = made.get(self)
        return "OBJECT_STORE" if known is None else known.transport

    def future(self) -> concurrent.futures.Future[T]:
        """Return a concurrent.futures.Future of the value."""
        from concurrent.futures import Future  # the import takes 5 ms, and most programs do not need it

        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        process = _process_of(self)

        def settle() -> None:
            try:
                value = process.load(self)
            except BaseException as error:  # the future carries any error
                future.set_exception(error)
            else:
                future.set_result(value)

        process.when_ready(self, settle)
        future.object_ref = self  # type: ignore[attr-defined]
        return future

    def as_future(self, _internal: bool = False) -> Any:
        """Return an asyncio.Future of the value, in the running loop."""
        import asyncio  # takes 20 ms, but async code has imported it already

        loop = asyncio.get_event_loop()
        future = loop.create_future()
        process = _process_of(self)

        def settle() -> None:
            if future.done():
                return
            try:
                value = process.load(self)
            except StopIteration as error:
                future.set_exception(RuntimeError(str(error)))
            except BaseException as error:  # the future carries any error
                future.set_exception(error)
            else:
                future.set_result(value)

        def wake() -> None:
            if not loop.is_closed():
                # In the loop's own thread, where an asyncio actor reads its channel, the loop need not be woken.
                own = getattr(loop, "_thread_id", None) == threading.get_ident()
                (loop.call_soon if own else loop.call_soon_threadsafe)(settle)

        with process.lock:
            process._check_open()
            process.ask_for(self)
            ready = self._kind != PENDING
            process.link.flush()
        if ready:
            settle()
        else:
            process.when_ready(self, wake)
        return future

    def _on_completed(self, py_callback: Callable[[Any], None]) -> None:
        """Call a function with the value, or with the exception of a failure, once it is there."""
        done = self.future()
        done.add_done_callback(
            lambda _: py_callback(done.result() if done.exception() is None else done.exception())
        )

    def _on_ready(self, call: Callable[[], None]) -> None:
        """Call `call` when the value is ready, in any thread and under the engine lock, so it must be short."""
        _process_of(self).when_ready(self, call)

    def _failure(self) -> tuple[str, dict[str, Any]] | None:
        """Return the error of a failed ref as (class name, fields), or None."""
        return self._value if self._kind == ERROR else None

    def _forgive(self) -> None:
        """Suppress the report of an unhandled error."""
        self._held = SeenHeld(self._held) if isinstance(self._held, list) else SEEN

    def __await__(self) -> Generator[Any, None, T]:
        return self.as_future().__await__()  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ObjectRef) and other._id == self._id)

    def __lt__(self, other: ObjectRef[Any]) -> bool:
        return self._id < other._id

    def __repr__(self) -> str:
        return f"ObjectRef({self._id.hex()})"

    def __iter__(self) -> Any:
        raise TypeError(
            "an ObjectRef cannot be iterated, because it refers to one value; call ray.get(ref) for the value, or "
            "request several with num_returns=n"
        )

    def _released(self) -> None:
        """Release one view of the value; called by the view's finalizer, which keeps the ref alive."""
        views = self._views
        if views:
            views.pop()


def _unseen(held: Any) -> bool:
    return held is None or type(held) is list


def _rebuild(oid: bytes) -> ObjectRef[Any]:
    process = _current[0]
    if process is None:
        return ObjectRef(oid)
    ref: ObjectRef[Any] = process.intern(oid)
    return ref


def set_current(process: Any) -> None:
    """Set the process that newly unpickled refs belong to."""
    _current[0] = process


class Session(Protocol):
    """The process of a ref, which waits for values and unpacks them."""

    lock: Any
    link: Link
    closed: bool

    def _check_open(self) -> None: ...

    def ask_for(self, ref: ObjectRef[Any]) -> None:
        """Request the value of a borrowed ref."""

    def when_ready(self, ref: ObjectRef[Any], call: Callable[[], None]) -> None:
        """Call `call` when a ref has its value."""

    def load(self, ref: ObjectRef[Any]) -> Any:
        """Unpack the value of a ready ref."""


def _process_of(ref: ObjectRef[Any]) -> Session:
    process: Any = ref._process
    if process is None or process.closed:
        raise RuntimeError(f"{ref!r} does not belong to a running session, so its value is gone")
    session: Session = process
    return session


def site_text(site: Any) -> str | None:
    """Return `file:line` of a recorded call site."""
    if site is None:
        return None
    code, line = site
    return f"{code.co_filename}:{line}"
