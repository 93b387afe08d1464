"""The page of a report: tables of what failed, what waits and why, what ran, and what holds memory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape

from skate.util.report.snapshot import Row, Snapshot
from skate.util.report.timeline import picture

#: The most rows of a table; the others are counted.
ROWS_MAX = 200
MESSAGE_CHARACTERS = 2_000
ENDED = ("FINISHED", "FAILED")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
STYLE = """
:root { color-scheme: light dark; --line: #8884; --failed: #c22; }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 1320px; margin: 1.5em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.15em; margin: 1.6em 0 .4em; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; }
th, td { text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4em 0; font-size: 12px; }
svg { width: 100%; font: 11px system-ui, sans-serif; fill: currentColor; } rect.failed { fill: var(--failed); }
"""


class _Html(str):
    """Text that is HTML already."""


def page(snapshot: Snapshot) -> str:
    """Return the page as HTML."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(snapshot.taken))
    failed = [row for row in snapshot.tasks if row["state"] == "FAILED"]
    waiting = [row for row in snapshot.tasks if row["state"] not in (*ENDED, "RUNNING")]
    sections = [
        ("Nodes and resources", _nodes(snapshot)),
        (f"Failures ({len(failed)})", _failures(failed)),
        (f"Waiting tasks ({len(waiting)})", _waiting(waiting, snapshot.taken)),
        ("Functions", _functions(snapshot.tasks)),
        ("Recent tasks", picture(snapshot.events)),
        (f"Actors ({len(snapshot.actors)})", _actors(snapshot.actors)),
        (f"Placement groups ({len(snapshot.groups)})", _groups(snapshot.groups)),
        ("Memory", _memory(snapshot.objects)),
        (f"Programs ({len(snapshot.jobs)})", _jobs(snapshot.jobs)),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Session at {when}</title><style>{STYLE}</style>"
        f"<h1>Session at {when}</h1><p>{escape(snapshot.software)}</p>{body}</html>\n"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], nothing: str) -> str:
    """Return a table, or a sentence if it has no rows. Numbers stand to the right."""
    rows = list(rows)
    if not rows:
        return f"<p>{escape(nothing)}</p>"
    numeric = [all(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]

    def cell(kind: str, at: int, value: object) -> str:
        text = (
            f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        )
        text = text if isinstance(text, _Html) else escape(str(text))
        return f"<{kind}{' class=number' if numeric[at] else ''}>{text}</{kind}>"

    def line(kind: str, values: Sequence[object]) -> str:
        return f"<tr>{''.join(cell(kind, at, value) for at, value in enumerate(values))}</tr>"

    more = f"<p>{len(rows) - ROWS_MAX} more are not shown.</p>" if len(rows) > ROWS_MAX else ""
    lines = "".join(line("td", row) for row in rows[:ROWS_MAX])
    return f"<table><thead>{line('th', columns)}</thead><tbody>{lines}</tbody></table>{more}"


def _grouped(
    rows: Iterable[Row], key: Callable[[Row], tuple[object, ...]]
) -> list[tuple[tuple[object, ...], list[Row]]]:
    """Return rows by a key, those of the most rows first."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items(), key=lambda each: -len(each[1]))


def _nodes(snapshot: Snapshot) -> str:
    used = table(
        ("resource", "in use", "total"),
        (
            (name, *(_amount(name, each) for each in (total - snapshot.free.get(name, 0.0), total)))
            for name, total in sorted(snapshot.total.items())
            if not name.startswith("node:")
        ),
        "The cluster has no resources.",
    )
    nodes = table(
        ("node", "address", "state", "CPU", "GPU"),
        (
            (
                row["node_id"][:12],
                row["node_ip"],
                " ".join(filter(None, (row["state"], row["state_message"]))),
                row["resources_total"].get("CPU", 0.0),
                row["resources_total"].get("GPU", 0.0),
            )
            for row in snapshot.nodes
        ),
        "No node has answered.",
    )
    return used + nodes


def _amount(name: str, amount: float) -> object:
    return f"{amount / 2**20:,.1f} MiB" if name.endswith("memory") else f"{amount:,.4g}"


def _failures(rows: Iterable[Row]) -> str:
    def shown(message: str) -> _Html:
        last = message.strip().splitlines()[-1] if message.strip() else "no message"
        text = message if len(message) <= MESSAGE_CHARACTERS else f"... {message[-MESSAGE_CHARACTERS:]}"
        return _Html(f"<details><summary>{escape(last)}</summary><pre>{escape(text)}</pre></details>")

    return table(
        ("function", "tasks", "at", "error"),
        (
            (
                name,
                len(found),
                _place(found[-1]["error_message"] or ""),
                shown(found[-1]["error_message"] or ""),
            )
            for (name, _), found in _grouped(
                rows, lambda row: (row["name"], _last_line(row["error_message"]))
            )
        ),
        "No task has failed.",
    )


def _place(message: str) -> str:
    """Return the last line of a program that the traceback in a message names."""
    found = _FRAME.findall(message)
    return f"{found[-1][0]}:{found[-1][1]}" if found else ""


def _last_line(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return lines[-1] if lines else ""


def _waiting(rows: Iterable[Row], now: float) -> str:
    def longest(found: Sequence[Row]) -> float:
        begun = [row["creation_time_ms"] for row in found if row["creation_time_ms"]]
        return now - min(begun) / 1000 if begun else 0.0

    return table(
        ("function", "tasks", "state", "waits for", "longest, s"),
        (
            (name, len(found), where, reason or "", longest(found))
            for (name, where, reason), found in _grouped(
                rows, lambda row: (row["name"], row["state"], row["waits_for"])
            )
        ),
        "No task is waiting.",
    )


def _functions(rows: Iterable[Row]) -> str:
    def line(name: object, found: Sequence[Row]) -> tuple[object, ...]:
        ended = [row for row in found if row["end_time_ms"] and row["start_time_ms"]]
        ran = sum(row["end_time_ms"] - row["start_time_ms"] for row in ended)
        waited = sum(
            row["start_time_ms"] - row["creation_time_ms"] for row in ended if row["creation_time_ms"]
        )
        counts = [sum(row["state"] == each for row in found) for each in (*ENDED, "RUNNING")]
        mean = len(ended) or 1
        return name, *counts, len(found) - sum(counts), ran / 1000, ran / mean, waited / mean

    return table(
        ("function", "finished", "failed", "running", "waiting", "run time, s", "mean, ms", "mean wait, ms"),
        (line(name, found) for (name,), found in _grouped(rows, lambda row: (row["func_or_class_name"],))),
        "No task is known.",
    )


def _actors(rows: Iterable[Row]) -> str:
    return table(
        ("class", "name", "state", "pid", "node", "restarts", "cause of death"),
        (
            (
                row["class_name"],
                row["name"] or "",
                row["state"],
                str(row["pid"] or ""),
                (row["node_id"] or "")[:12],
                int(row["num_restarts"] or 0),
                str(row["death_cause"] or ""),
            )
            for row in rows
        ),
        "There is no actor.",
    )


def _groups(rows: Iterable[Row]) -> str:
    return table(
        ("group", "name", "state", "bundles"),
        (
            (row["placement_group_id"][:12], row["name"] or "", row["state"], str(len(row["bundles"] or ())))
            for row in rows
        ),
        "There is no placement group.",
    )


def _memory(rows: Iterable[Row]) -> str:
    groups = _grouped(
        rows, lambda row: (row["call_site"] or row["task_name"] or "", row["reference_type"], row["location"])
    )
    by_size = sorted(groups, key=lambda each: -sum(row["object_size"] or 0 for row in each[1]))
    return table(
        ("made at", "reference", "stored", "references", "MiB"),
        (
            (site, kind, where or "", len(found), sum(row["object_size"] or 0 for row in found) / 2**20)
            for (site, kind, where), found in by_size
        ),
        "No object is referenced.",
    )


def _jobs(rows: Iterable[Row]) -> str:
    return table(
        ("job", "status", "program", "message"),
        (
            (
                row["submission_id"] or row["job_id"],
                row["status"],
                row["entrypoint"] or "",
                row["message"] or "",
            )
            for row in rows
        ),
        "No program is known.",
    )
