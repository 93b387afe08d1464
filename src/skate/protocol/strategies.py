"""Scheduling strategies as templates carry them: the bundle, the node or the labels that a task or an actor asks for.

On the wire each is a plain tuple with the kind of strategy first; `strategy_of` makes the record of it, once for each template.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from skate.protocol.record import Record

#: Stands for the index of whichever bundle of a group has room.
ANY_BUNDLE: Final = -1
#: Conditions on labels: (key, operator, values), or ("", "any", several of these tuples).
Conditions: TypeAlias = tuple[tuple[str, str, tuple[Any, ...]], ...]


class BundleStrategy(Record):
    """Run in a bundle of a placement group; `capture`: what the task starts runs in the group as well."""

    tag: Literal["bundle"]
    group_id: bytes
    bundle: int
    capture: bool

    def takes(self, group_id: bytes, index: int) -> bool:
        """Return whether this bundle will do."""
        return group_id == self.group_id and self.bundle in (ANY_BUNDLE, index)


class NodeStrategy(Record):
    """Run on a node; elsewhere only if `soft` and the node cannot run it."""

    tag: Literal["node"]
    node_id: bytes
    soft: bool


class LabelStrategy(Record):
    """Run on a node whose labels meet the conditions `hard`, rather on one that also meets `preferred`."""

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
    """Return the record of a strategy that has been checked."""
    if not fields:
        return None
    record: Strategy = _RECORDS[fields[0]](*fields)
    return record
