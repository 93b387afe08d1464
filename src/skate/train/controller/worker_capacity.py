"""The number of workers that fit: bundles of resources packed onto nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skate.resources import Resources

Node = Mapping[str, float]


def fitting(bundle: Resources, nodes: Sequence[Node], most: int, apart: bool = False) -> int:
    """Return how many bundles of a kind fit onto nodes, at most `most`; with `apart`, at most one per node."""
    found = 0
    for node in nodes:
        if found >= most:
            break
        found += bundle.times(node, 1 if apart else most)
    return min(found, most)


def fitting_together(bundle: Resources, nodes: Sequence[Node], most: int, strategy: str) -> int:
    """Compute `fitting` under a placement strategy: STRICT_PACK uses one node, STRICT_SPREAD one node per bundle."""
    if strategy == "STRICT_PACK":
        return max((fitting(bundle, [node], most) for node in nodes), default=0)
    return fitting(bundle, nodes, most, apart=strategy == "STRICT_SPREAD")


def why_not(bundle: Resources, nodes: Sequence[Node], wanted: int, strategy: str) -> str:
    """Describe the resources that a cluster lacks for this many workers; empty if it lacks none."""
    fits = fitting_together(bundle, nodes, wanted, strategy)
    if fits >= wanted:
        return ""
    lacking = [name for name in bundle if all(name in bundle.lacking(node) for node in nodes)]
    total = Resources.total(nodes)
    available = Resources({name: total.get(name, 0.0) for name in bundle})
    workers = "1 worker" if wanted == 1 else f"{wanted} workers"
    message = (
        f"{workers} with {bundle} each {'was' if wanted == 1 else 'were'} requested ({bundle * wanted} in all), but "
        f"the cluster has {available} on {len(nodes)} node{'s' * (len(nodes) != 1)}: room for {fits} worker{'s' * (fits != 1)}"
    )
    if strategy.startswith("STRICT"):
        message += f" with placement_strategy={strategy!r}"
    if lacking:
        message += f"; no node has {' and '.join(f'{bundle[name]:g} {name}' for name in lacking)}"
    if "GPU" in lacking:
        return f"{message}; on a machine without GPUs leave use_gpu=False"
    own = [name for name in lacking if name not in ("CPU", "memory") and ":" not in name]
    if own:
        given = ", ".join(f"{name!r}: {bundle[name]:g}" for name in own)
        return f"{message}; add the resource to nodes, for example with init(resources={{{given}}})"
    return f"{message}; lower num_workers or resources_per_worker, or start a larger session"
