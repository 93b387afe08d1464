"""`memory_summary`: the references that keep objects alive, as a table."""

from __future__ import annotations

from typing import Any

from skate.util.state.api import find
from skate.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
GROUPS = {"NODE_ADDRESS": "node_id", "STACK_TRACE": "call_site"}
ORDERS = {"OBJECT_SIZE": "object_size", "PID": "pid", "REFERENCE_TYPE": "reference_type"}
COLUMNS = (
    "SIZE",
    "REFERENCE",
    "COUNT",
    "PID",
    "TYPE",
    "WHERE",
    "HELD BY",
    "STATUS",
    "MADE BY",
    "MADE AT",
    "OBJECT",
)
TIMEOUT_SECONDS = 5.0


def memory_summary(
    address: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """Format the references that keep objects alive, as tables for each node or each line of code, the largest
    objects first.

    Args:
        address: accepted for compatibility; the session of this process is used.
        group_by: "NODE_ADDRESS", or "STACK_TRACE" for the lines of code that created the objects.
        sort_by: "OBJECT_SIZE", "PID" or "REFERENCE_TYPE".
        units: "B", "KB", "MB" or "GB", of 1,024.
        line_wrap: accepted for compatibility; lines are never wrapped.
        stats_only: only the totals.
        num_entries: the most lines of each table; all by default.

    Raises ValueError for an unknown value, ServerUnavailable if no session runs.
    """
    for name, value, known in (
        ("group_by", group_by, GROUPS),
        ("sort_by", sort_by, ORDERS),
        ("units", units, UNITS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is unknown; use one of: {', '.join(known)}")
    rows = find("objects", None, RAY_MAX_LIMIT_FROM_API_SERVER, TIMEOUT_SECONDS, True, False)
    lines = []
    if not stats_only:
        for name, group in _grouped(rows, GROUPS[group_by]).items():
            title = "node" if group_by == "NODE_ADDRESS" else "made at"
            lines += [f"--- {title} {name}: {_total(group, units)}", ""]
            lines += _table(_sorted(group, sort_by)[:num_entries], units)
            if num_entries is not None and len(group) > num_entries:
                lines.append(f"... and {len(group) - num_entries} more")
            lines.append("")
    lines.append(f"--- in all: {_total(rows, units)}")
    return "\n".join(lines) + "\n"


def _grouped(rows: list[Any], column: str) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(getattr(row, column) or "?", []).append(row)
    return groups


def _sorted(rows: list[Any], sort_by: str) -> list[Any]:
    if sort_by == "OBJECT_SIZE":
        return sorted(rows, key=lambda row: (-row.object_size, row.object_id))
    column = ORDERS[sort_by]
    return sorted(rows, key=lambda row: (getattr(row, column), -row.object_size, row.object_id))


def _total(rows: list[Any], units: str) -> str:
    sizes = {row.object_id: max(0, row.object_size) for row in rows}
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.reference_type] = counts.get(row.reference_type, 0) + 1
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f"{len(sizes)} objects, {_size(sum(sizes.values()), units)}" + (f" ({kinds})" if kinds else "")


def _size(size: int, units: str) -> str:
    if size < 0:
        return "?"
    return f"{size} B" if units == "B" else f"{size / UNITS[units]:.3f} {units}"


def _table(rows: list[Any], units: str) -> list[str]:
    cells = [COLUMNS]
    for row in rows:
        cells.append(
            (
                _size(row.object_size, units),
                row.reference_type,
                str(row.count),
                str(row.pid or "-"),
                row.type,
                row.location,
                row.holder,
                row.task_status,
                row.task_name or "-",
                row.call_site,
                row.object_id,
            )
        )
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
