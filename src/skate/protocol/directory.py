"""Directions of messages: the allowed senders, by number. Used by checks, tests and the documentation, not by
every process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from skate.protocol import (
    client_messages,
    driver_messages,
    node_messages,
    peer_messages,
    worker_messages,
)
from skate.protocol.check import Length
from skate.protocol.fields import Count, Where


def tag_of(record: type) -> int:
    """Return the number of a message, from the annotation of its first field."""
    kind = record.__annotations__["tag"]  # text; to evaluate the annotations of all records takes 5 ms
    assert kind.startswith("Literal[")
    return int(kind[len("Literal[") : -1])


def constant_of(record: type) -> str:
    """Return the name of a message's number in `messages`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", record.__name__).upper()


def _by_tag(*records: type) -> dict[int, type]:
    return {tag_of(record): record for record in records}


def _of(module: Any) -> list[type]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and "tag" in each.__annotations__
    ]


W = worker_messages
D = driver_messages
#: Messages from every client to its node, from workers only, and from drivers in separate processes.
FROM_CLIENTS = _by_tag(*_of(client_messages))
FROM_WORKERS = _by_tag(W.Ready, W.Done, W.Item, W.Returned, W.Blocked, W.Unblocked, W.Exiting)
FROM_DRIVERS = _by_tag(D.Attach, D.Leave, D.Shown)
#: Messages from a node to every client, to workers only, and to drivers in separate processes.
TO_CLIENTS = _by_tag(*_of(node_messages))
TO_WORKERS = _by_tag(*[each for each in _of(worker_messages) if tag_of(each) not in FROM_WORKERS])
TO_DRIVERS = _by_tag(*[each for each in _of(driver_messages) if tag_of(each) not in FROM_DRIVERS])
BETWEEN_NODES = _by_tag(*_of(peer_messages))
DIRECTIONS: dict[str, dict[int, type]] = {
    "every client → node": FROM_CLIENTS,
    "worker → node": FROM_WORKERS,
    "node → every client": TO_CLIENTS,
    "node → worker": TO_WORKERS,
    "node → node": BETWEEN_NODES,
    "driver in a process of its own → node": FROM_DRIVERS,
    "node → driver in a process of its own": TO_DRIVERS,
}


def _why(any_id: Annotated[bytes, Length(28, 24, 16)]) -> None:
    """Request the reason why an object is not available yet."""


def _survey(token: Count, kinds: tuple[str, ...], where: Where, limit: Count, detail: bool) -> None:
    """Request rows of all nodes and processes."""


#: The arguments of the queries that `Queries` does not answer itself.
VERBS: dict[str, Callable[..., None]] = {"why": _why, "survey": _survey}
