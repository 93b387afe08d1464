"""A first-in, first-out queue that tasks, actors and the driver share."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

import skate
import skate.actor

# A blocked put or get occupies one of the actor's concurrent calls. With a small limit, blocked readers could
# keep out the put that they wait for.
_CONCURRENT_CALLS = 100_000


class Empty(queue.Empty):
    """The queue held too few items."""


class Full(queue.Full):
    """The queue had no room."""


class Queue:
    """A first-in, first-out queue held by an actor.

    A Queue can be passed to tasks and actors: every copy is the same queue. Each put and each get is one call
    to the actor; `put_nowait_batch` and `get_nowait_batch` move many items in one.

    Args:
        maxsize: items that fit in; 0 or less means without limit.
        actor_options: options for the actor, such as `{"num_cpus": 1}`.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        options = {"max_concurrency": _CONCURRENT_CALLS, **(actor_options or {})}
        self.maxsize = maxsize
        self.actor: Any = skate.remote(_QueueActor).options(**options).remote(maxsize)

    def __repr__(self) -> str:
        state = "" if self.actor is not None else ", shut down"
        return f"Queue(maxsize={self.maxsize}{state})"

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Number of items in the queue now."""
        size: int = skate.get(self._open().qsize.remote())
        return size

    def qsize(self) -> int:
        """Number of items in the queue now."""
        return self.size()

    def empty(self) -> bool:
        """True if the queue is empty now."""
        return self.size() == 0

    def full(self) -> bool:
        """True if the queue is full now; never with `maxsize=0`."""
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end.

        Args:
            item: the item to add.
            block: wait for room, if the queue is full.
            timeout: seconds to wait at most; None waits forever.

        Raises:
            Full: there was no room, or none in time.
            ValueError: `timeout` is negative, or the queue has been shut down.
        """
        ref = self._open().put.remote(item, _seconds(block, timeout))
        try:
            skate.get(ref)
        except Full as error:
            raise Full(*_own(error).args) from None

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end, as `put` does, without blocking the event loop.

        Raises:
            Full: there was no room, or none in time.
            ValueError: `timeout` is negative, or the queue has been shut down.
        """
        ref = self._open().put.remote(item, _seconds(block, timeout))
        try:
            await ref
        except Full as error:
            raise Full(*_own(error).args) from None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the first item.

        Args:
            block: wait for an item, if the queue is empty.
            timeout: seconds to wait at most; None waits forever.

        Raises:
            Empty: there was no item, or none in time.
            ValueError: `timeout` is negative, or the queue has been shut down.
        """
        ref = self._open().get.remote(_seconds(block, timeout))
        try:
            return skate.get(ref)
        except Empty as error:
            raise Empty(*_own(error).args) from None

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item, as `get` does, without blocking the event loop.

        Raises:
            Empty: there was no item, or none in time.
            ValueError: `timeout` is negative, or the queue has been shut down.
        """
        ref = self._open().get.remote(_seconds(block, timeout))
        try:
            return await ref
        except Empty as error:
            raise Empty(*_own(error).args) from None

    def put_nowait(self, item: Any) -> None:
        """Add an item at the end, or raise Full at once."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """Take the first item, or raise Empty at once."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items in their order, or none of them.

        Raises:
            Full: there was no room for all of them.
            TypeError: `items` is not iterable.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"items must be an iterable of items to add, not {type(items).__name__}")
        ref = self._open().put_nowait_batch.remote(list(items))
        try:
            skate.get(ref)
        except Full as error:
            raise Full(*_own(error).args) from None

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Remove and return the first `num_items` items, or none of them.

        Raises:
            Empty: the queue held fewer.
            TypeError: `num_items` is not an int.
            ValueError: `num_items` is negative.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"num_items must be an int, not {type(num_items).__name__}")
        if num_items < 0:
            raise ValueError(f"num_items must be 0 or more, not {num_items}")
        ref = self._open().get_nowait_batch.remote(num_items)
        try:
            items: list[Any] = skate.get(ref)
        except Empty as error:
            raise Empty(*_own(error).args) from None
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor behind the queue, and discard its items.

        Calls that wait in the queue fail with an ActorDiedError. A second shutdown does nothing.

        Args:
            force: kill the actor, without asking it to exit first.
            grace_period_s: seconds that the actor has to exit before it is killed.
        """
        actor, self.actor = self.actor, None
        if actor is None:
            return
        if not force:
            done, _ = skate.wait([actor.exit.remote()], timeout=grace_period_s)
            if done:
                return
        skate.kill(actor, no_restart=True)

    def _open(self) -> Any:
        if self.actor is None:
            raise ValueError("this Queue has been shut down; create a new one")
        return self.actor


def _seconds(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0
    if timeout is not None and timeout < 0:
        raise ValueError(f"'timeout' must be a non-negative number of seconds, not {timeout}")
    return timeout


def _own(error: Exception) -> Exception:
    """Return the actor's exception; the one that arrives carries the remote traceback as its text."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error


class _QueueActor:
    def __init__(self, maxsize: int) -> None:
        self._items: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self._items.qsize()

    async def put(self, item: Any, timeout: float | None = None) -> None:
        # Trying first lets a timeout of 0 succeed when there is room, which wait_for would not.
        try:
            self._items.put_nowait(item)
            return
        except asyncio.QueueFull:
            if timeout == 0:
                raise Full(f"the queue is full: it holds {self._items.qsize()} items") from None
        try:
            await asyncio.wait_for(self._items.put(item), timeout)
        except asyncio.TimeoutError:
            raise Full(
                f"the queue stayed full for {timeout} s: it holds {self._items.qsize()} items"
            ) from None

    async def get(self, timeout: float | None = None) -> Any:
        try:
            return self._items.get_nowait()
        except asyncio.QueueEmpty:
            if timeout == 0:
                raise Empty("the queue is empty") from None
        try:
            return await asyncio.wait_for(self._items.get(), timeout)
        except asyncio.TimeoutError:
            raise Empty(f"the queue stayed empty for {timeout} s") from None

    async def put_nowait_batch(self, items: list[Any]) -> None:
        held, limit = self._items.qsize(), self._items.maxsize
        if 0 < limit < held + len(items):
            raise Full(f"Cannot add {len(items)} items to queue of size {held} and maxsize {limit}.")
        for item in items:
            self._items.put_nowait(item)

    async def get_nowait_batch(self, num_items: int) -> list[Any]:
        held = self._items.qsize()
        if num_items > held:
            raise Empty(f"Cannot get {num_items} items from queue of size {held}.")
        return [self._items.get_nowait() for _ in range(num_items)]

    async def exit(self) -> None:
        skate.actor.exit_actor()
