"""Placement groups: bundles of resources set apart together, for tasks and actors that belong together."""

from __future__ import annotations

import os
from typing import Any

from skate.client.session import session
from skate.client.task import option_values
from skate.client.task.exports import selector_conditions
from skate.core.ids import PLACEMENT_GROUP_UNIQUE_BYTES, NodeID, PlacementGroupID
from skate.core.resource.resources import to_amounts, to_units
from skate.wire import values

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
NODE_LABEL = "ray.io/node-id"

Bundle = dict[str, float]


class PlacementGroup:
    """A handle to a placement group; it can be passed on to tasks and actors.

    `id` is its PlacementGroupID. The resources are given back by `remove_placement_group`, or when the
    program that made the group ends.
    """

    def __init__(self, id: PlacementGroupID, bundle_cache: list[Bundle] | None = None) -> None:
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        """Return the group that represents none."""
        return PlacementGroup(PlacementGroupID.nil())

    @property
    def is_empty(self) -> bool:
        """True for the group that represents none."""
        return self.id.is_nil()

    @property
    def bundle_specs(self) -> list[Bundle]:
        """The resources of each bundle. Raises ValueError if the group is unknown."""
        if not self.bundle_cache:
            self.bundle_cache = _bundles_of(self.id.binary())
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self.bundle_specs)

    def ready(self) -> Any:
        """A ref whose value is this group, there as soon as all bundles are set apart.

        Its `get` raises TaskUnschedulableError if the cluster can never hold the group, and
        TaskPlacementGroupRemoved if the group is removed first.
        """
        process = session.current()
        if self.is_empty:
            return process.store(self)
        with process.lock:
            oid = process.next_object_id()
        process.request("group_ready", self.id.binary(), oid)
        with process.lock:
            return process.adopt_any(oid)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until all bundles are set apart; False after `timeout_seconds`, or at once if it cannot be.

        Raises TaskPlacementGroupRemoved if the group is removed.
        """
        from skate.client.object.retrieval import (  # `wait` here is the method's name, there the function's
            get,
            wait,
        )
        from skate.exceptions import TaskUnschedulableError  # only those who wait need the tree

        if self.is_empty:
            return False
        ref = self.ready()
        timeout = None if timeout_seconds is None or timeout_seconds < 0 else timeout_seconds
        if not wait([ref], timeout=timeout)[0]:
            return False
        try:
            get(ref)
        except TaskUnschedulableError as error:
            import logging  # 5 ms, only for a group that cannot be

            logging.getLogger("skate").warning("%s", error)
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"


def placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Ask for bundles of resources, all of them or none; returns at once, see `PlacementGroup.wait`.

    Args:
        bundles: what each bundle sets apart, such as `[{"CPU": 1}, {"GPU": 1}]`.
        strategy: "PACK" (default) on as few nodes as possible, "SPREAD" over as many as possible,
            "STRICT_PACK" on one, "STRICT_SPREAD" each on another.
        name: a name by which `get_placement_group` finds it.
        lifetime: None to end with the program that made it, "detached" to stay until removed.
        bundle_label_selector: for each bundle the labels that its node must have.
        topology_strategy: strategies by topology label; says with "ray.io/node-id" what `strategy` says.

    Raises ValueError for bundles, a strategy or a lifetime that cannot be and for a name that is taken,
    TypeError for a name that is not text.
    """
    units, fields = _checked(
        bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector, topology_strategy
    )
    fields["name"] = _name(name)
    process = session.current()
    fields["namespace"] = process.namespace
    group_id = os.urandom(PLACEMENT_GROUP_UNIQUE_BYTES) + process.job
    amounts = [{key: float(value) for key, value in bundle.items()} for bundle in bundles]
    group = PlacementGroup(PlacementGroupID(group_id), amounts)
    fields["value"] = values.pack(group).joined()
    process.request("create_group", group_id, units, fields)
    return group


def validate_placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> bool:
    """True if `placement_group` would take these arguments; raises ValueError otherwise."""
    _checked(bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector, topology_strategy)
    return True


def _checked(
    bundles: Any, strategy: Any, lifetime: Any, target: Any, selectors: Any, topology: Any
) -> tuple[list[dict[str, int]], dict[str, Any]]:
    """The bundles and options of a group, as the node reads them."""
    chosen = _strategy(strategy, topology)
    units = _bundle_units(bundles)
    fields: dict[str, Any] = {"strategy": chosen, "detached": _detached(lifetime)}
    if target:
        _check_target(target, chosen)
    if selectors is not None:
        fields["selectors"] = _selectors(selectors, len(bundles))
    return units, fields


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Remove a group: release its resources, and end whatever runs in it. Removing it again has no effect."""
    if not isinstance(placement_group, PlacementGroup):
        raise TypeError(f"remove_placement_group takes a placement group, got {placement_group!r:.80}")
    session.current().request("remove_group", placement_group.id.binary())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Return the group of that name. Raises ValueError if there is none."""
    if not isinstance(placement_group_name, str) or not placement_group_name:
        raise ValueError(
            "Please supply a non-empty value to get_placement_group: the name of a placement group must be a "
            f"non-empty string, got {placement_group_name!r}"
        )
    process = session.current()
    found = [
        entry
        for entry in process.request("rows", "groups", {"name": placement_group_name})
        if entry["name"] == placement_group_name and entry["state"] != "REMOVED"
    ]
    if not found:
        known = sorted(entry["name"] for entry in process.request("rows", "groups", {}) if entry["name"])
        raise ValueError(
            f"Failed to look up placement group with name: {placement_group_name}; there is none; "
            + (f"the named groups are: {', '.join(known)}" if known else "no group has a name")
        )
    return PlacementGroup(PlacementGroupID.from_hex(found[0]["placement_group_id"]), _bundles(found[0]))


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the state of a group as a dict; of all groups, by id, if none is given. Empty for an unknown group."""
    where = {} if placement_group is None else {"placement_group_id": placement_group.id.hex()}
    found = session.current().request("rows", "groups", where)
    entries = {entry["placement_group_id"]: _described(entry) for entry in found}
    if placement_group is None:
        return entries
    return entries.get(placement_group.id.hex(), {})


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Raise ValueError unless a bundle index is one of the group's, or -1 for any."""
    if placement_group.id.is_nil():
        if bundle_index != -1:
            raise ValueError(
                f"If placement group is not set, the value of bundle index must be -1, got {bundle_index}; pass "
                "the group as well"
            )
    elif not -1 <= bundle_index < placement_group.bundle_count:
        count = placement_group.bundle_count
        raise ValueError(
            f"placement group bundle index {bundle_index} is invalid: placement_group_bundle_index={bundle_index}, but the "
            f"group has {count} bundles: valid are -1 (any) and 0 to {count - 1}"
        )


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the current task or actor runs in; None outside of groups and in a driver."""
    process = session.current()
    group: bytes | None = None if process.context is None else process.context.group
    return None if group is None else PlacementGroup(PlacementGroupID(group))


def _described(entry: dict[str, Any]) -> dict[str, Any]:
    placed = entry["state"] == "CREATED"
    return {
        "placement_group_id": entry["placement_group_id"],
        "name": entry["name"],
        "bundles": {index: to_amounts(bundle) for index, bundle in entry["bundles"].items()},
        "bundles_to_node_id": {index: entry["nodes"].get(index, "") for index in entry["bundles"]},
        "strategy": entry["strategy"],
        "state": entry["state"],
        "stats": {
            "end_to_end_creation_latency_ms": 0.0,
            "scheduling_latency_ms": 0.0,
            "scheduling_attempt": 1 if placed else 0,
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": "FINISHED" if placed else "INFEASIBLE" if entry["why"] else entry["state"],
        },
    }


def _bundles(entry: dict[str, Any]) -> list[Bundle]:
    return [to_amounts(bundle) for _, bundle in sorted(entry["bundles"].items())]


def _bundles_of(group_id: bytes) -> list[Bundle]:
    for entry in session.current().request("rows", "groups", {"placement_group_id": group_id.hex()}):
        return _bundles(entry)
    raise ValueError(f"there is no placement group {group_id.hex()} in this cluster")


# -- validation of requests


def _strategy(strategy: Any, topology: Any) -> str:
    if topology is not None:
        if strategy is not None:
            raise ValueError(
                "strategy and topology_strategy both set how bundles are placed; keep one, such as "
                "topology_strategy="
                f"{{{NODE_LABEL!r}: {strategy!r}}}"
            )
        return _topology(topology)
    if strategy is None:
        return "PACK"
    if strategy not in STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy}. Supported strategies are: {', '.join(STRATEGIES)}"
        )
    return str(strategy)


def _topology(topology: Any) -> str:
    if not isinstance(topology, dict):
        raise ValueError(
            f"topology_strategy must be a dict of label to strategy, got a {type(topology).__name__}"
        )
    others = [key for key in topology if key != NODE_LABEL]
    for key, wanted in topology.items():
        if not isinstance(key, str) or not key:
            raise ValueError(f"topology_strategy has the key {key!r}; labels must be non-empty strings")
        if wanted not in STRATEGIES:
            raise ValueError(
                f"topology_strategy: {key!r} cannot be {wanted!r}; strategies are {', '.join(STRATEGIES)}"
            )
        if key != NODE_LABEL and wanted != "STRICT_PACK":
            raise ValueError(
                f"topology_strategy: {key!r} cannot be {wanted!r}; labels other than {NODE_LABEL!r} take "
                "'STRICT_PACK'"
            )
    if len(others) > 1:
        raise ValueError(
            f"topology_strategy takes one label besides {NODE_LABEL!r}, got {len(others)}: {others}"
        )
    return str(topology.get(NODE_LABEL, "PACK"))


def _bundle_units(bundles: Any) -> list[dict[str, int]]:
    example = 'a list such as [{"CPU": 1}, {"GPU": 1}]'
    if not isinstance(bundles, list):
        raise ValueError(
            f"Placement group bundles must be a list: bundles must be like {example}, got a {type(bundles).__name__}"
        )
    if not bundles:
        raise ValueError(
            f"Bundles must be a non-empty list of resource dictionaries, but this one is empty; use {example}"
        )
    found = []
    for index, bundle in enumerate(bundles):
        if not isinstance(bundle, dict) or not all(isinstance(key, str) for key in bundle):
            raise ValueError(
                "Bundles must be a non-empty list of resource dictionaries: "
                f"bundle {index} is {bundle!r:.80}; bundles must be dicts of resource to amount, such as {example}"
            )
        if "bundle" in bundle:
            from skate.exceptions import RaySystemError  # only errors need the tree

            raise RaySystemError(
                "bundle is a system reserved resource, which is not allowed to be used in placement "
                f"group; bundle {index} requests it: {bundle!r:.80}"
            )
        for key, amount in bundle.items():
            if isinstance(amount, bool) or not isinstance(amount, (int, float)):
                raise ValueError(
                    "Bundles must be a non-empty list of resource dictionaries: "
                    f"bundle {index}: {key} is {amount!r}, which is not an amount; use a number"
                )
        units = {key: to_units(amount, f"bundle {index}: {key}") for key, amount in bundle.items()}
        kept = {key: each for key, each in units.items() if each}
        if not kept:
            raise ValueError(
                "Bundles cannot be an empty dictionary or resources with only 0 values: "
                f"bundle {index} is {bundle!r}, which reserves nothing; leave it out or set an amount"
            )
        found.append(kept)
    return found


def _name(name: Any) -> str:
    if name is None:
        return ""
    if not isinstance(name, str):
        raise TypeError(f"the name of a placement group must be a string, got {name!r}")
    return name


def _detached(lifetime: Any) -> bool:
    if lifetime not in (None, "detached"):
        raise ValueError(
            f"Placement group `lifetime` argument must be either `None` or 'detached', got {lifetime!r}"
        )
    return bool(lifetime == "detached")


def _check_target(node_id: Any, strategy: str) -> None:
    if strategy != "STRICT_PACK":
        raise ValueError(f"_soft_target_node_id currently only works with STRICT_PACK but got {strategy}")
    if NodeID.from_hex(node_id).is_nil():
        raise ValueError(f"_soft_target_node_id={node_id!r} is not the id of a node")


def _selectors(selectors: Any, count: int) -> list[Any]:
    if not isinstance(selectors, list):
        raise ValueError(
            f"bundle_label_selector must be a list with one dict per bundle, got a {type(selectors).__name__}"
        )
    if len(selectors) != count:
        raise ValueError(
            "The length of `bundle_label_selector` should equal the length of `bundles`: "
            f"bundle_label_selector has {len(selectors)} entries for {count} bundles; pass one per bundle, {{}} for any node"
        )
    try:
        checked = [option_values.label_selector("bundle_label_selector", each) for each in selectors]
    except TypeError as error:
        raise ValueError(str(error)) from None
    return [selector_conditions(each or {}) for each in checked]
