"""The number of workers for a demand, and the workers that may end: pure functions of what the cluster reports.

Waiting work is packed first into the free room of the nodes, then into workers that are starting, then into new ones (first fit,
the largest first). Amounts are those of the public API: `{"CPU": 2.0}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Shape = Mapping[str, float]
#: Amounts are multiples of 1/10000; sums of them differ by less than this.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Node:
    """A living node: its name, resources in all and free, and the seconds since it was used; draining ones take no work."""

    name: str
    total: Shape
    free: Shape
    idle_s: float = 0.0
    draining: bool = False
    is_head: bool = False


@dataclass(frozen=True)
class Group:
    """A placement group that waits."""

    bundles: tuple[Shape, ...]
    strategy: str = "PACK"


@dataclass(frozen=True)
class Demand:
    """Everything that waits, and what programs have requested to have in any case (`request_resources`)."""

    tasks: tuple[Shape, ...] = ()
    groups: tuple[Group, ...] = ()
    requested: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Limits:
    """How many workers there may be, and when an unused one ends."""

    min_workers: int = 0
    max_workers: int = 1
    idle_timeout_s: float = 300.0


@dataclass
class _Bins:
    """Rooms that are filled; a new one is as large as a worker, if that is known and there may be more."""

    rooms: list[dict[str, float]]
    worker: Shape | None
    new_max: int
    new: int = 0
    #: Demand that no worker could hold.
    unmet: list[Shape] = field(default_factory=list)

    def put(self, shape: Shape, apart: set[int] | None = None) -> None:
        """Put a shape into the first room that holds it; with `apart`, into none of these rooms, which grow by it."""
        for index, room in enumerate(self.rooms):
            if fits(shape, room) and (apart is None or index not in apart):
                take(shape, room)
                if apart is not None:
                    apart.add(index)
                return
        if self.new < self.new_max and (self.worker is None or fits(shape, self.worker)):
            self.new += 1
            # The size of the first worker is known once it has joined; until then it holds this shape alone.
            self.rooms.append(dict(self.worker) if self.worker is not None else {})
            if self.worker is None:
                self.new_max = self.new
            else:
                take(shape, self.rooms[-1])
            if apart is not None:
                apart.add(len(self.rooms) - 1)
        else:
            self.unmet.append(shape)


def target(nodes: Sequence[Node], starting: int, demand: Demand, worker: Shape | None, limits: Limits) -> int:
    """Return the number of workers that the demand needs, between the limits, and at least those that run.

    Args:
        nodes: the living nodes.
        starting: workers that were started and have not joined.
        demand: what waits.
        worker: the resources of one worker; None if none has ever joined, and then one starts to show them.
        limits: the bounds.
    """
    running = sum(1 for node in nodes if not node.is_head and not node.draining)
    bins = _Bins(
        [dict(node.free) for node in nodes if not node.draining]
        + [dict(worker or {}) for _ in range(starting)],
        worker,
        max(0, limits.max_workers - running - starting) if worker is not None or not starting else 0,
    )
    for shape in _largest_first(demand.tasks):
        bins.put(shape)
    for group in demand.groups:
        _put_group(bins, group)
    standing = _Bins(
        [dict(node.total) for node in nodes if not node.draining]
        + [dict(worker or {}) for _ in range(starting)],
        worker,
        bins.new_max,
    )
    for shape in _largest_first(demand.requested):
        standing.put(shape)
    needed = running + starting + max(bins.new, standing.new)
    return max(limits.min_workers, min(limits.max_workers, needed))


def to_retire(nodes: Sequence[Node], demand: Demand, limits: Limits) -> list[str]:
    """Return the names of workers that have been unused for long enough, the longest first, and that nothing needs."""
    workers = [node for node in nodes if not node.is_head and not node.draining]
    kept = {node.name: node for node in nodes if not node.draining}
    unused = [node for node in workers if node.idle_s >= limits.idle_timeout_s and _is_free(node)]
    chosen: list[str] = []
    for node in sorted(unused, key=lambda each: (-each.idle_s, each.name)):
        if len(workers) - len(chosen) <= limits.min_workers:
            break
        rest = [dict(each.total) for name, each in kept.items() if name != node.name]
        wanted = [*demand.tasks, *(bundle for group in demand.groups for bundle in group.bundles)]
        if any(fits(shape, node.free) for shape in wanted) or not holds(rest, demand.requested):
            continue
        del kept[node.name]
        chosen.append(node.name)
    return chosen


def holds(rooms: list[dict[str, float]], shapes: Sequence[Shape]) -> bool:
    """Return True if the rooms together have a place for all shapes that their packing finds."""
    bins = _Bins(rooms, None, 0)
    for shape in _largest_first(shapes):
        bins.put(shape)
    return not bins.unmet


def too_large(nodes: Sequence[Node], demand: Demand, worker: Shape) -> list[Shape]:
    """Return the shapes that neither a node nor a worker could ever hold, each once."""
    rooms = [worker, *(node.total for node in nodes)]
    found: list[Shape] = []
    for shape in (
        *demand.tasks,
        *(each for group in demand.groups for each in _wholes(group)),
        *demand.requested,
    ):
        if shape not in found and not any(fits(shape, room) for room in rooms):
            found.append(shape)
    return found


def fits(shape: Shape, room: Shape) -> bool:
    """Return True if a room has all of a shape."""
    return all(room.get(name, 0.0) >= amount - ROUNDING for name, amount in shape.items())


def take(shape: Shape, room: dict[str, float]) -> None:
    """Take a shape out of a room."""
    for name, amount in shape.items():
        room[name] = room.get(name, 0.0) - amount


def _put_group(bins: _Bins, group: Group) -> None:
    if group.strategy == "STRICT_PACK":
        bins.put(_wholes(group)[0])
        return
    apart: set[int] | None = set() if group.strategy == "STRICT_SPREAD" else None
    for bundle in _largest_first(group.bundles):
        bins.put(bundle, apart)


def _wholes(group: Group) -> Sequence[Shape]:
    """Return what a group needs on one node each: its bundles, or their sum."""
    if group.strategy != "STRICT_PACK":
        return group.bundles
    whole: dict[str, float] = {}
    for bundle in group.bundles:
        for name, amount in bundle.items():
            whole[name] = whole.get(name, 0.0) + amount
    return (whole,)


def _largest_first(shapes: Sequence[Shape]) -> list[Shape]:
    return sorted(shapes, key=lambda shape: -math.fsum(shape.values()))


def _is_free(node: Node) -> bool:
    return all(node.free.get(name, 0.0) >= amount - ROUNDING for name, amount in node.total.items())
