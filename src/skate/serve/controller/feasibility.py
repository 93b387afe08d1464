"""Check of cluster size against the requested replicas."""

from __future__ import annotations

from typing import Any

import skate
from skate.resources import Resources
from skate.serve.controller import spread
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import Target, wanted_of


def why_not(machine: Machine, apps: list[Any], ending: tuple[str, ...] = ()) -> str:
    """Describe the resources that the applications lack beside existing ones; return an empty string if they lack none."""
    total = skate.cluster_resources()
    replaced = {*ending, *(app.name for app in apps)}
    needs = Resources()
    lines = []
    for record in machine.each():
        if record.key[0] not in replaced:
            needs += record.target.resources() * record.want
    for app in apps:
        for part in app.parts:
            target = Target(part.name, "", part.config, part.actor, False, False, (), None)
            want = wanted_of(part.config, machine.capacity)
            each = target.resources()
            needs += each * want
            if target.per_node is not None and want > target.per_node * len(spread.nodes()):
                return (
                    f"the deployment {part.name!r} wants {want} replicas with max_replicas_per_node={target.per_node}, and the "
                    f"cluster has {len(spread.nodes())} node(s): that is {target.per_node * len(spread.nodes())} at most"
                )
            text = ", ".join(f"{name}: {amount:g}" for name, amount in each.items()) or "nothing"
            lines.append(f"{want} x {part.name!r} with {text}")
    short = needs.lacking(total)
    if not short:
        return ""
    has = ", ".join(
        f"{needs[name]:g} {name} are needed and the cluster has {total.get(name, 0.0):g}" for name in short
    )
    return (
        f"insufficient resources for {', '.join(repr(app.name) for app in apps)}: {has} ({'; '.join(lines)}). "
        'Request fewer replicas, or fewer resources for each, such as ray_actor_options={"num_cpus": 0.5}, or '
        "start with init(num_cpus=...)"
    )
