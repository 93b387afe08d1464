"""Statistics of a run by operator, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.data.execution.operators import Running

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def report(operators: Sequence[Running], seconds: float, errors: int) -> str:
    """Return a few lines for each operator that did any work, and one for the whole run."""
    lines: list[str] = []
    number = 0
    for operator in operators:
        if operator.counters.rows_of_blocks or operator.tasks:
            number += 1
            lines += _of(number, operator, seconds)
    if not operators:
        return ""
    last = operators[-1].counters
    lines.append(f"Total: {rows_text(last.rows_out)} in {seconds:.2f} s{_rate(last.rows_out, seconds)}")
    if errors:
        lines.append(f"{errors} pieces of work failed and were skipped (max_errored_blocks)")
    return "\n".join(lines)


def _of(number: int, operator: Running, seconds: float) -> list[str]:
    counters = operator.counters
    blocks = len(counters.rows_of_blocks)
    where = _where(operator)
    lines = [f"Operator {number} {operator.name}: {blocks} blocks{where}"]
    if blocks:
        least, most = min(counters.rows_of_blocks), max(counters.rows_of_blocks)
        lines.append(
            f"  rows     {counters.rows_out:,} out"
            + (f" of {counters.rows_in:,} in" if operator.inputs else "")
            + f"; a block {least:,} to {most:,}, {counters.rows_out // blocks:,} on average"
        )
        low, high = min(counters.bytes_of_blocks), max(counters.bytes_of_blocks)
        lines.append(
            f"  bytes    {size_text(counters.bytes_out)}; a block {size_text(low)} to {size_text(high)}, "
            f"{size_text(counters.bytes_out // blocks)} on average"
        )
    if counters.seconds:
        total = sum(counters.seconds)
        lines.append(
            f"  work     {total:.3f} s in {len(counters.seconds)} pieces, "
            f"{min(counters.seconds):.3f} to {max(counters.seconds):.3f} s{_rate(counters.rows_out, total)}"
        )
    return lines


def _where(operator: Running) -> str:
    if not operator.tasks:
        return ""
    here = operator.counters.here
    away = operator.tasks - here
    parts = []
    if away:
        actors = operator.counters.actors
        parts.append(f"{away} {'calls of ' + str(actors) + ' actors' if actors else 'tasks'}")
    if here:
        parts.append(f"{here} pieces ran in this process")
    return ", by " + " and ".join(parts)


def _rate(rows: int, seconds: float) -> str:
    return f", {rows / seconds:,.0f} rows/s" if seconds > 0 and rows else ""


def rows_text(rows: int) -> str:
    """Format a number of rows."""
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def size_text(size: float) -> str:
    """Format a number of bytes in a readable unit."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable: the last unit has no upper limit")


def summary(operators: Sequence[Any], seconds: float) -> dict[str, Any]:
    """Return the statistics as numbers: by operator name, and for the run."""
    return {
        "seconds": seconds,
        "operators": [
            {
                "name": each.name,
                "rows_in": each.counters.rows_in,
                "rows_out": each.counters.rows_out,
                "bytes_out": each.counters.bytes_out,
                "blocks": len(each.counters.rows_of_blocks),
                "work_seconds": sum(each.counters.seconds),
                "tasks": each.tasks,
            }
            for each in operators
        ],
    }
