"""Choice of nodes for the bundles of a placement group, from their requests and the resources of the nodes."""

from __future__ import annotations

from typing import Any

from skate.core.placement.placement_group import PlacementGroup
from skate.core.schedule.feasibility import matches
from skate.core.schedule.infeasible_request import infeasible_message

Bundle = tuple[int, dict[str, int], Any]  # index, resources, conditions on labels


def plan(strategy: str, bundles: list[Bundle], nodes: list[Any], used: list[Any]) -> dict[int, Any] | None:
    """Return a planned node for each bundle by its index, or None if there is no room now.

    `nodes` have `available` and `labels`; `used` lists the nodes of the group's other bundles, one entry per bundle.
    """
    free = {node: dict(node.available) for node in nodes}
    order = sorted(
        bundles, key=lambda b: (sum(_fits(b, node, free[node]) for node in nodes), -sum(b[1].values()))
    )
    if strategy == "STRICT_SPREAD":
        return _distinct(order, [node for node in nodes if node not in used], free)
    if strategy == "STRICT_PACK":
        return _on_one(order, used[:1] or nodes, free)
    if strategy == "PACK":
        return _on_one(order, nodes, free) or _packed(order, nodes, free)
    return _spread(order, nodes, free, used)


def shortage(group: PlacementGroup, totals: list[dict[str, int]], all_labels: list[dict[str, str]]) -> str:
    """Return why nodes with these resources and labels can never hold a group; empty if they can."""
    who = f"placement group {group.name or group.group_id.hex()[:8]}"
    for index, selector in enumerate(group.selectors):
        if not any(matches(labels, selector) for labels in all_labels):
            return f"bundle {index} of {who} requests labels {selector}, but the nodes have {all_labels}"
    for bundle in group.bundles:
        if not any(all(total.get(name, 0) >= units for name, units in bundle.items()) for total in totals):
            return infeasible_message(bundle, totals, who)
    if group.strategy == "STRICT_SPREAD" and len(group.bundles) > len(totals):
        return (
            f"No available node types can fulfill resource request of {who}: STRICT_SPREAD places each of its "
            f"{len(group.bundles)} bundles on a separate node, but this cluster has {len(totals)}; add "
            "nodes or use SPREAD"
        )
    whole: dict[str, int] = {}
    for bundle in group.bundles:
        for name, units in bundle.items():
            whole[name] = whole.get(name, 0) + units
    room = totals
    if group.strategy != "STRICT_PACK":
        room = [{n: sum(total.get(n, 0) for total in totals) for n in whole}]
    if not any(all(total.get(name, 0) >= units for name, units in whole.items()) for total in room):
        return infeasible_message(whole, room, who)
    return ""


def _fits(bundle: Bundle, node: Any, free: dict[str, int]) -> bool:
    _, request, selector = bundle
    if selector and not matches(node.labels, selector):
        return False
    return all(free.get(name, 0) >= units for name, units in request.items())


def _take(bundle: Bundle, free: dict[str, int]) -> None:
    for name, units in bundle[1].items():
        free[name] -= units


def _on_one(
    bundles: list[Bundle], nodes: list[Any], free: dict[Any, dict[str, int]]
) -> dict[int, Any] | None:
    for node in nodes:
        left = dict(free[node])
        for bundle in bundles:
            if not _fits(bundle, node, left):
                break
            _take(bundle, left)
        else:
            return {bundle[0]: node for bundle in bundles}
    return None


def _packed(
    bundles: list[Bundle], nodes: list[Any], free: dict[Any, dict[str, int]]
) -> dict[int, Any] | None:
    """Put as many bundles as fit onto one node, then onto the next."""
    found: dict[int, Any] = {}
    rest = bundles
    while rest:
        best: tuple[Any, list[Bundle]] | None = None
        for node in nodes:
            left = dict(free[node])
            placed = []
            for bundle in rest:
                if _fits(bundle, node, left):
                    _take(bundle, left)
                    placed.append(bundle)
            if placed and (best is None or len(placed) > len(best[1])):
                best = (node, placed)
        if best is None:
            return None
        node, placed = best
        for bundle in placed:
            _take(bundle, free[node])
            found[bundle[0]] = node
        rest = [bundle for bundle in rest if bundle[0] not in found]
    return found


def _spread(
    bundles: list[Bundle], nodes: list[Any], free: dict[Any, dict[str, int]], used: list[Any]
) -> dict[int, Any] | None:
    """Put each bundle on the node with the fewest bundles so far."""
    found: dict[int, Any] = {}
    counts = {node: used.count(node) for node in nodes}
    for bundle in bundles:
        fitting = [node for node in nodes if _fits(bundle, node, free[node])]
        if not fitting:
            return None
        node = min(
            fitting, key=lambda each: (counts[each], -sum(free[each].get(name, 0) for name in bundle[1]))
        )
        counts[node] += 1
        _take(bundle, free[node])
        found[bundle[0]] = node
    return found


def _distinct(
    bundles: list[Bundle], nodes: list[Any], free: dict[Any, dict[str, int]]
) -> dict[int, Any] | None:
    """Put each bundle on a different node: a bipartite matching by augmenting paths, which move earlier bundles."""
    taken: dict[Any, Bundle] = {}

    def seat(bundle: Bundle, tried: set[Any]) -> bool:
        for node in nodes:
            if node in tried or not _fits(bundle, node, free[node]):
                continue
            tried.add(node)
            if node not in taken or seat(taken[node], tried):
                taken[node] = bundle
                return True
        return False

    if not all(seat(bundle, set()) for bundle in bundles):
        return None
    return {bundle[0]: node for node, bundle in taken.items()}
