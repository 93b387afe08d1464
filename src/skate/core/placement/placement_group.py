"""One placement group: what its bundles ask for and where they are."""

from __future__ import annotations

from typing import Any

from skate.core.resource.capacity import Capacity, Lease
from skate.protocol.states import GroupState


class PlacementGroup:
    """One group: what its bundles ask for and where they are."""

    __slots__ = (
        "group_id", "bundles", "strategy", "name", "namespace", "owner", "detached", "state", "leases", "ready", "why",
        "value", "selectors", "places", "planned", "asked", "refused", "ready_at",
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
        #: The bundles that are here, by index.
        self.leases: dict[int, tuple[Capacity, Lease]] = {}
        #: Where each bundle is; where it is to be, until all nodes concerned have agreed; who has not answered or refused.
        self.places: dict[int, Any] = {}
        self.planned: dict[int, Any] = {}
        self.asked: set[int] = set()
        self.refused: set[int] = set()
        #: Objects that become ready with the group.
        self.ready: list[bytes] = []
        self.ready_at: list[tuple[int, bytes]] = []  # those of other nodes
        self.why = ""
        #: The handle to the group, packed: the value of what becomes ready with it.
        self.value: bytes = fields.get("value") or group_id
        #: For each bundle the conditions on its node's labels.
        self.selectors: tuple[Any, ...] = tuple(fields.get("selectors") or ())

    def __repr__(self) -> str:
        return f"<PlacementGroup {self.group_id.hex()[:8]} {self.strategy} {self.state.name} bundles={len(self.bundles)}>"


def removed_text(group_id: bytes) -> str:
    """Return the message of everything that wanted a removed group."""
    return f"the placement group {group_id.hex()} has been removed"
