"""Ranks of replicas: within the deployment, among its nodes, and among its replicas on one node."""

from __future__ import annotations

from collections.abc import Iterable

from skate.serve.controller.records import RUNNING, DeploymentRecord, ReplicaRecord


def lowest_free(taken: Iterable[int]) -> int:
    """Return the lowest number from 0 on that is not taken."""
    used = set(taken)
    return next(number for number in range(len(used) + 1) if number not in used)


def assign_to_node(record: DeploymentRecord, one: ReplicaRecord, node: str, only: bool) -> None:
    """Note the node of a replica, and give it the ranks that depend on it. `only` is True if there is no other node."""
    one.info["node"] = node
    others = [each for each in record.living() if each is not one and each.placed]
    here = [each for each in others if each.info.get("node") == node]
    one.node_rank = here[0].node_rank if here else lowest_free(each.node_rank for each in others)
    one.local_rank = one.rank if only else lowest_free(each.local_rank for each in here)
    one.placed = True


def close_gaps(record: DeploymentRecord) -> list[ReplicaRecord]:
    """Renumber replicas so that no rank is missing, once all that are wanted run; return those with new ranks."""
    living = record.living()
    if len(living) != record.want or any(one.state is not RUNNING for one in living):
        return []
    before = [one.place for one in living]
    _close(living, "rank")
    nodes: dict[str, list[ReplicaRecord]] = {}
    for one in living:
        nodes.setdefault(one.info.get("node", ""), []).append(one)
    for here in nodes.values():
        _close(here, "local_rank")
    firsts = [here[0] for here in nodes.values()]
    _close(firsts, "node_rank")
    for first, here in zip(firsts, nodes.values(), strict=True):
        for one in here:
            one.node_rank = first.node_rank
    return [one for one, place in zip(living, before, strict=True) if one.place != place]


def _close(replicas: list[ReplicaRecord], name: str) -> None:
    """Give those whose rank is too high the lowest free ones, and leave the others alone."""
    allowed = range(len(replicas))
    kept = {getattr(one, name) for one in replicas if getattr(one, name) in allowed}
    for one in sorted(replicas, key=lambda each: getattr(each, name)):
        if getattr(one, name) not in allowed:
            new = lowest_free(kept)
            kept.add(new)
            setattr(one, name, new)
