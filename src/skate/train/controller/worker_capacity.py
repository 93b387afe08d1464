"""How many workers find room: bundles of resources packed onto nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Resources = Mapping[str, float]
_EPSILON = 1e-6


def fitting(bundle: Resources, nodes: Sequence[Resources], most: int, apart: bool = False) -> int:
    """How many bundles of a kind fit onto nodes, at most `most`; with `apart` one a node."""
    found = 0
    for node in nodes:
        if found >= most:
            break
        counts = [
            int((node.get(name, 0.0) + _EPSILON) / amount) for name, amount in bundle.items() if amount > 0
        ]
        here = min(counts, default=most)
        found += min(here, 1) if apart else here
    return min(found, most)


def fitting_together(bundle: Resources, nodes: Sequence[Resources], most: int, strategy: str) -> int:
    """Compute `fitting` under a placement strategy: STRICT_PACK uses one node, STRICT_SPREAD one node per bundle."""
    if strategy == "STRICT_PACK":
        return max((fitting(bundle, [node], most) for node in nodes), default=0)
    return fitting(bundle, nodes, most, apart=strategy == "STRICT_SPREAD")


def most_by_sums(bundle: Resources, free: Resources, most: int) -> int:
    """The most bundles by total free resources, regardless of nodes."""
    counts = [int((free.get(name, 0.0) + _EPSILON) / amount) for name, amount in bundle.items() if amount > 0]
    return min([most, *counts])


def why_not(bundle: Resources, nodes: Sequence[Resources], wanted: int, strategy: str) -> str:
    """Describe what a cluster lacks for so many workers; empty if it lacks nothing."""
    fits = fitting_together(bundle, nodes, wanted, strategy)
    if fits >= wanted:
        return ""
    asked = _text(bundle)
    lacking = [
        name
        for name, amount in bundle.items()
        if all(node.get(name, 0.0) + _EPSILON < amount for node in nodes)
    ]
    total: dict[str, float] = {}
    for node in nodes:
        for name in bundle:
            total[name] = total.get(name, 0.0) + node.get(name, 0.0)
    there = _text(total)
    in_all = {name: amount * wanted for name, amount in bundle.items()}
    workers = "1 worker" if wanted == 1 else f"{wanted} workers"
    message = (
        f"{workers} with {asked} each {'was' if wanted == 1 else 'were'} requested ({_text(in_all)} in all), but "
        f"the cluster has {there} on {len(nodes)} node{'s' * (len(nodes) != 1)}: room for {fits} worker{'s' * (fits != 1)}"
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


def _text(resources: Resources) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items()) or "nothing"
