"""The status of the cluster in the form of `ray status`, which scripts search for lines, and as Ray's REST has it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import skate
from skate.autoscaler.demand import Demand, Shape
from skate.autoscaler.view import HEAD_RESOURCE, demand

_LINE = "-" * 63
_BYTES = ("memory", "object_store_memory")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def status_text(waiting: Demand | None = None) -> str:
    """Return the nodes, the resources in use, and the demand that waits, as text.

    Args:
        waiting: what waits, if that is known already.
    """
    waiting = demand() if waiting is None else waiting
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return "\n".join(
        [
            f"{'=' * 8} Autoscaler status: {now} {'=' * 8}", "Node status", _LINE, *_nodes(), "", "Resources", _LINE,
            "Total Usage:", *_usage_lines(), "", "From request_resources:", *_demand_lines(waiting.requested, "", "(none)"),
            "Pending Demands:", *_pending_lines(waiting),
        ]
    )  # fmt: skip


def status_fields(waiting: Demand | None = None) -> dict[str, Any]:
    """Return the same as fields: resources as [used, total], and each demand with its number."""
    waiting = demand() if waiting is None else waiting
    groups = [{"strategy": group.strategy, "bundles": _counted(group.bundles)} for group in waiting.groups]
    return {
        "usage": {name: list(amounts) for name, amounts in _usage().items()},
        "resourceDemand": _counted(waiting.tasks),
        "pgDemand": _counted(groups),
        "requestDemand": _counted(waiting.requested),
    }


def _usage() -> dict[str, tuple[float, float]]:
    total, free = skate.cluster_resources(), skate.available_resources()
    return {name: (amount - free.get(name, 0.0), amount) for name, amount in sorted(total.items())}


def _nodes() -> Iterator[str]:
    rows = skate.nodes()
    living = Counter(
        "head" if HEAD_RESOURCE in row["Resources"] else "worker" for row in rows if row["Alive"]
    )
    yield "Active:"
    yield from (f" {count} {kind}" for kind, count in sorted(living.items()))
    yield "Pending:"
    yield " (no pending nodes)"
    yield "Recent failures:"
    dead = [row for row in rows if not row["Alive"]]
    yield from (f" {row['NodeName']}: {row['DeathReasonMessage'] or 'it has left'}" for row in dead)
    if not dead:
        yield " (no failures)"


def _usage_lines() -> Iterator[str]:
    for name, (used, total) in _usage().items():
        if name.startswith("node:"):
            continue
        if name in _BYTES:
            yield f" {_size(used)}/{_size(total)} {name}"
        else:
            yield f" {used}/{total} {name}"


def _pending_lines(waiting: Demand) -> list[str]:
    groups = [f"{_counted(group.bundles)} ({group.strategy})" for group in waiting.groups]
    lines = [
        *_demand_lines(waiting.tasks, "+ pending tasks/actors"),
        *(f" {text}: {count}+ pending placement groups" for text, count in Counter(groups).items()),
        *_demand_lines(waiting.requested, "+ from request_resources()"),
    ]
    return lines or [" (no resource demands)"]


def _demand_lines(shapes: Iterable[Shape], what: str, none: str = "") -> list[str]:
    lines = [f" {shape}: {count}{what}" for shape, count in _counted(shapes)]
    return lines or ([f" {none}"] if none else [])


def _counted(values: Iterable[object]) -> list[list[Any]]:
    """Return each different value with its number, in the order of their first ones."""
    found = Counter(json.dumps(value, sort_keys=True) for value in values)
    return [[json.loads(text), count] for text, count in found.items()]


def _size(amount: float) -> str:
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.2f}{_UNITS[unit]}" if amount else "0B"
