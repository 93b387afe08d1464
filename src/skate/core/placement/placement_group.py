"""One placement group: the requests and places of its bundles."""

from __future__ import annotations

from typing import Any

from skate.core.resource.capacity import Capacity, Lease
from skate.protocol.states import GroupState


class PlacementGroup:
    """One group: the requests and places of its bundles."""

    __slots__ = (
        "group_id", "bundles", "strategy", "name", "namespace", "owner", "detached", "state", "leases", "ready", "why",
        "value", "selectors", "places", "planned", "requested", "refused", "ready_at", "has_lost",
    )  # fmt: skip

    def __init__(
        self, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: dict[str, Any], owner: int
    ) -> None:
        self.group_id = group_id
        self.bundles = bundles
        self.strategy: str = fields.get("strategy") or "PACK"
        self.name: str = fields.get("name") or ""
        self.namespace: str = fields.get("namespace") or ""
        self.detached: bool = bool(fields.get("detached"))
        self.owner = owner
        self.state: GroupState = GroupState.PENDING
        self.has_lost = False  # bundles that it once had, which are not placed again yet
        #: The bundles that are here, by index.
        self.leases: dict[int, tuple[Capacity, Lease]] = {}
        #: Place of each bundle; planned places until all nodes concerned agree; nodes that have not answered or refused.
        self.places: dict[int, Any] = {}
        self.planned: dict[int, Any] = {}
        self.requested: set[int] = set()
        self.refused: set[int] = set()
        #: Objects that become ready with the group.
        self.ready: list[bytes] = []
        self.ready_at: list[tuple[int, bytes]] = []  # objects of other nodes
        self.why = ""
        #: The packed handle to the group: the value of the objects that become ready with it.
        self.value: bytes = fields.get("value") or group_id
        #: Conditions on the node labels, for each bundle.
        self.selectors: tuple[Any, ...] = tuple(fields.get("selectors") or ())

    def __repr__(self) -> str:
        return f"<PlacementGroup {self.group_id.hex()[:8]} {self.strategy} {self.state.name} bundles={len(self.bundles)}>"


def removed_text(group_id: bytes) -> str:
    """Return the error message for uses of a removed group."""
    return f"the placement group {group_id.hex()} has been removed"
