"""Assignment of ranks to workers: consecutive on each node, with nodes in the order of their first worker. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from skate.train.worker.session import Place


def places(nodes: Sequence[str]) -> tuple[list[int], list[Place]]:
    """Assign ranks to workers on these nodes.

    Returns:
        (order, places): `order[rank]` is the position in `nodes` of the worker that gets a rank, `places[rank]` its place.
    """
    by_node: dict[str, list[int]] = {}
    for position, node in enumerate(nodes):
        by_node.setdefault(node, []).append(position)
    order: list[int] = []
    found: list[Place] = []
    for node_rank, members in enumerate(by_node.values()):
        for local_rank, position in enumerate(members):
            found.append(Place(len(order), len(nodes), local_rank, len(members), node_rank))
            order.append(position)
    return order, found
