"""A fair queue: one client delays another only by a bounded amount, regardless of how much work it sends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """Work that waits in a fair queue."""

    @property
    def client(self) -> str:
        """The client that sent the work; the empty string for callers in the same process."""

    @property
    def request(self) -> str:
        """The client's request that the work belongs to."""


Item = TypeVar("Item", bound=Queued)


class FairQueue(Generic[Item]):
    """A queue of work items. Clients take turns, as do the requests of a client; items of a request keep their order.

    The dicts hold the order of turns: the first key had its last turn longest ago. New keys join at the end, so a
    client gains nothing if it leaves and returns.
    """

    def __init__(self) -> None:
        self._clients: dict[str, dict[str, deque[Item]]] = {}
        self._sizes: dict[str, int] = {}
        # Counted separately, because other threads read it while this one changes the dicts.
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Item]:
        for client in self._clients:
            yield from self.of(client)

    def of(self, client: str) -> Iterator[Item]:
        """Iterate over the work of one client."""
        for queue in self._clients.get(client, {}).values():
            yield from queue

    def size(self, client: str) -> int:
        """Return the number of items that wait for a client."""
        return self._sizes.get(client, 0)

    def largest(self) -> str | None:
        """Return the client with the most items; None if the queue is empty."""
        return max(self._sizes, key=self._sizes.__getitem__, default=None)

    def extend(self, items: Iterable[Item]) -> None:
        """Add each item to the end of its request."""
        for item in items:
            self._clients.setdefault(item.client, {}).setdefault(item.request, deque()).append(item)
            self._grow(item.client)

    def put_back(self, item: Item) -> None:
        """Return an item that had begun to the queue, as the next item of its client."""
        requests = self._clients.setdefault(item.client, {})
        queue = requests.pop(item.request, deque())
        queue.appendleft(item)
        self._clients[item.client] = {item.request: queue, **requests}
        self._grow(item.client)

    def next_client(self, held: Mapping[str, int] | None = None) -> str:
        """Return the next client: the one that holds least, and among equals the one whose last turn was longest ago.

        Args:
            held: for each client, the number of items already taken from the queue and still in progress.

        Raises IndexError if the queue is empty.
        """
        if not self._clients:
            raise IndexError("the queue is empty")
        return (
            next(iter(self._clients)) if not held else min(self._clients, key=lambda each: held.get(each, 0))
        )

    def peek(self) -> Item:
        """Return what `popleft` would return. Raises IndexError if the queue is empty."""
        return next(iter(self._clients[self.next_client()].values()))[0]

    def popleft(self, held: Mapping[str, int] | None = None) -> Item:
        """Remove and return the next item. Raises IndexError if the queue is empty."""
        client = self.next_client(held)
        requests = self._clients.pop(client)
        request = next(iter(requests))
        queue = requests.pop(request)
        found = queue.popleft()
        if queue:
            requests[request] = queue
        if requests:
            self._clients[client] = requests
        self._shrink(client)
        return found

    def remove(self, item: Item) -> None:
        """Remove an item. Raises KeyError or ValueError if it is not in the queue."""
        requests = self._clients[item.client]
        queue = requests[item.request]
        queue.remove(item)
        if not queue:
            del requests[item.request]
        if not requests:
            del self._clients[item.client]
        self._shrink(item.client)

    def clear(self) -> None:
        """Remove everything."""
        self._clients.clear()
        self._sizes.clear()
        self._size = 0

    def _grow(self, client: str) -> None:
        self._size += 1
        self._sizes[client] = self.size(client) + 1

    def _shrink(self, client: str) -> None:
        self._size -= 1
        self._sizes[client] -= 1
        if not self._sizes[client]:
            del self._sizes[client]
