"""Views of large values that scripted processes hold, and their answers when a node wants to move one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.simulation.process import Process
    from skate.simulation.refs import Frame, Ref

Thread = Generator[Callable[[], bool] | None, None, Any]


def recall(process: Process, message: tuple[Any, ...]) -> None:
    """RECALL: a process forgets where a value is, unless it is being looked at."""
    _, number, oid = message
    weak = process.known.get(oid)
    ref = weak() if weak is not None else None
    given_up = ref is None or not ref.views
    if ref is not None and given_up and ref.kind == m.ARENA:
        ref.kind, ref.value = m.REMOTE, None
    grants = 0 if ref is None else ref.grants
    process.send((m.RECALLED, number, oid, grants if given_up else -1))


def read(process: Process, frame: Frame, parent: bytes, ref: Ref) -> Thread:
    """Wait for a value and look at it; what is in it is kept."""
    looks = 0
    try:
        while ref.kind >= m.UNKNOWN or ref.kind == m.PENDING:
            if ref.kind >= m.UNKNOWN:
                looks += 1  # so that it stays when it has come
                ref.views += 1
                ref.kind = m.PENDING
                process.pending[ref.oid] = ref
                process.send((m.FETCH, ref.oid))
            yield from process.block(lambda: ref.kind != m.PENDING, parent, ref.oid)
            if ref.kind == m.PENDING:
                break
        looks += 1
        ref.views += 1
        for thing in process.load(ref):
            frame.take(thing)
        yield None
        if ref.kind == m.ARENA:
            process.cluster.onlooker.reads(process.cluster, ref)
    finally:
        ref.views -= looks
