"""A queue that clients share fairly: the work of one client delays another's by a bounded amount, however much it sends."""

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
    """Work by client and request. Clients take turns, and so do the requests of a client; a request keeps its order.

    Dicts keep the order of turns: the first key is the one whose last turn was longest ago. Newcomers join at the end, so
    a client that leaves and comes back gains nothing.
    """

    def __init__(self) -> None:
        self._clients: dict[str, dict[str, deque[Item]]] = {}
        self._sizes: dict[str, int] = {}
        # Counted, because other threads ask for it while this one changes the dicts.
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
        """Return how much work of a client waits."""
        return self._sizes.get(client, 0)

    def largest(self) -> str | None:
        """Return the client with the most work; None if the queue is empty."""
        return max(self._sizes, key=self._sizes.__getitem__, default=None)

    def extend(self, items: Iterable[Item]) -> None:
        """Add work at the end of its request."""
        for item in items:
            self._clients.setdefault(item.client, {}).setdefault(item.request, deque()).append(item)
            self._grow(item.client)

    def put_back(self, item: Item) -> None:
        """Add work that has begun before: it is its client's next."""
        requests = self._clients.setdefault(item.client, {})
        queue = requests.pop(item.request, deque())
        queue.appendleft(item)
        self._clients[item.client] = {item.request: queue, **requests}
        self._grow(item.client)

    def next_client(self, held: Mapping[str, int] | None = None) -> str:
        """Return the client that is next: of those that hold least, the one whose last turn was longest ago.

        Args:
            held: how much each client holds already of what the queue is for.

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
        """Remove and return the next piece of work. Raises IndexError if the queue is empty."""
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
        """Remove a piece of work. Raises KeyError or ValueError if it does not wait."""
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
