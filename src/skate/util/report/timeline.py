"""A picture of the recent tasks: a row for each worker, a box for each task, as SVG."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, LABEL_WIDTH, ROW_HEIGHT = 1160, 150, 16
#: The most rows; the others are counted.
ROWS_MAX = 64
#: Tasks that are nearer than this, in pixels, and together are narrower, are one box.
MERGED = 2.0
#: The trace has an event of this category for each function, and some more about the same time.
TASK = "task::"


class Span(NamedTuple):
    """A time in which one worker did one thing, in pixels from the left; tasks that touch at this size are one span."""

    begin: float
    end: float
    name: str
    tasks: int
    failed: bool


def picture(events: Sequence[dict[str, Any]]) -> str:
    """Return the picture, or a sentence if no task has ended."""
    tasks = [event for event in events if event["cat"].startswith(TASK)]
    if not tasks:
        return "<p>No task has ended.</p>"
    first = min(event["ts"] for event in tasks)
    last = max(event["ts"] + event["dur"] for event in tasks)
    scale = WIDTH / max(last - first, 1)
    rows: dict[str, list[dict[str, Any]]] = {}
    for event in sorted(tasks, key=lambda event: event["ts"]):
        rows.setdefault(f"{event['pid']} {event['tid']}", []).append(event)
    shown = sorted(rows)[:ROWS_MAX]
    height = ROW_HEIGHT * (len(shown) + 1)
    parts = [
        f'<svg viewBox="0 0 {LABEL_WIDTH + WIDTH} {height}" role="img" aria-label="Recent tasks by worker">',
        f'<text x="{LABEL_WIDTH}" y="12">0 s</text>',
        f'<text x="{LABEL_WIDTH + WIDTH}" y="12" text-anchor="end">{(last - first) / 1e6:.3g} s</text>',
    ]
    for number, row in enumerate(shown):
        y = ROW_HEIGHT * (number + 1)
        parts.append(f'<text x="0" y="{y + 12}">{escape(row.replace("worker:", "pid "))}</text>')
        for span in spans(rows[row], first, scale):
            title = f"{span.name}: {span.tasks} tasks, {(span.end - span.begin) / scale / 1e3:.3g} ms"
            kind = ' class="failed"' if span.failed else f' fill="{_colour(span.name)}"'
            parts.append(
                f'<rect x="{LABEL_WIDTH + span.begin:.1f}" y="{y + 1}" width="{max(span.end - span.begin, 0.5):.1f}" '
                f'height="{ROW_HEIGHT - 2}"{kind}><title>{escape(title)}</title></rect>'
            )
    parts.append("</svg>")
    if len(rows) > len(shown):
        parts.append(f"<p>{len(rows) - len(shown)} more workers are not shown.</p>")
    return "".join(parts)


def spans(events: Sequence[dict[str, Any]], first: float, scale: float) -> Iterator[Span]:
    """Yield the spans of one worker from its tasks in order of their starts."""
    at: Span | None = None
    for event in events:
        begin = (event["ts"] - first) * scale
        end = begin + event["dur"] * scale
        failed = event["args"].get("status") == "FAILED"
        if at is not None and begin - at.end < MERGED and (event["name"], failed) == (at.name, at.failed):
            at = at._replace(end=max(at.end, end), tasks=at.tasks + 1)
            continue
        if at is not None and end - at.begin < MERGED:  # too narrow to tell tasks apart
            at = at._replace(end=max(at.end, end), tasks=at.tasks + 1, failed=at.failed or failed)
            continue
        if at is not None:
            yield at
        at = Span(begin, end, event["name"], 1, failed)
    if at is not None:
        yield at


def _colour(name: str) -> str:
    return f"hsl({zlib.crc32(name.encode()) % 360}, 55%, 55%)"
