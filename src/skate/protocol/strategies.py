"""Scheduling strategies in templates: the bundle, the node or the labels that a task or an actor requests.

On the wire each is a plain tuple that starts with the kind of strategy; `strategy_of` converts it to a
record, once per template.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from skate.protocol.record import Record

#: The bundle index that means any bundle of the group with room.
ANY_BUNDLE: Final = -1
#: Conditions on labels: (key, operator, values), or ("", "any", several of these tuples).
Conditions: TypeAlias = tuple[tuple[str, str, tuple[Any, ...]], ...]


class BundleStrategy(Record):
    """Run in a bundle of a placement group; `capture`: tasks and actors started by it run in the group as well."""

    tag: Literal["bundle"]
    group_id: bytes
    bundle: int
    capture: bool

    def takes(self, group_id: bytes, index: int) -> bool:
        """Return True if this bundle is acceptable."""
        return group_id == self.group_id and self.bundle in (ANY_BUNDLE, index)


class NodeStrategy(Record):
    """Run on a node; elsewhere only if `soft` and the node cannot run it.

    While the node is busy, the task or actor waits, runs elsewhere ("spill") or fails.
    """

    tag: Literal["node"]
    node_id: bytes
    soft: bool
    when_busy: Literal["wait", "spill", "fail"]


class LabelStrategy(Record):
    """Run on a node whose labels satisfy `hard`, preferably on one that also satisfies `preferred`."""

    tag: Literal["labels"]
    hard: Conditions
    preferred: Conditions


class SpreadStrategy(Record):
    """Run on the nodes in turn."""

    tag: Literal["spread"]


Strategy: TypeAlias = BundleStrategy | NodeStrategy | LabelStrategy | SpreadStrategy
SPREAD: Final = SpreadStrategy("spread")
_RECORDS: dict[str, type[Any]] = {
    "bundle": BundleStrategy,
    "node": NodeStrategy,
    "labels": LabelStrategy,
    "spread": SpreadStrategy,
}


def strategy_of(fields: tuple[Any, ...] | None) -> Strategy | None:
    """Return the record of a validated strategy."""
    if not fields:
        return None
    record: Strategy = _RECORDS[fields[0]](*fields)
    return record
