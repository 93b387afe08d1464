"""The report of a search as text: counts by status, the best trial, a table of trials, and the failed ones."""

from __future__ import annotations

import datetime
import math
import numbers
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skate.tune.experiment.trial import Trial

#: The order of trials in the table, by status.
_SHOWN_FIRST = (Trial.RUNNING, Trial.PAUSED, Trial.PENDING, Trial.TERMINATED, Trial.ERROR)
_NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


@dataclass
class TrialTable:
    """The rows of a table of trials, and how many trials of which status it leaves out."""

    headings: list[str]
    rows: list[list[Any]]
    left_out: str = ""

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        return [psql(self.headings, self.rows), *filter(None, [self.left_out])]


def by_status(trials: Sequence[Any]) -> dict[str, list[Any]]:
    """Group trials by their status."""
    found: dict[str, list[Any]] = {}
    for trial in trials:
        found.setdefault(trial.status, []).append(trial)
    return found


def counts(trials: Sequence[Any], total: int | None) -> str:
    """Return the line with the number of trials by status."""
    parts = ", ".join(f"{len(each)} {status}" for status, each in sorted(by_status(trials).items()))
    of = "" if not total else "/infinite" if total >= sys.maxsize else f"/{total}"
    return f"Number of trials: {len(trials)}{of} ({parts})"


def passed(start: float, now: float) -> str:
    """Return the line with the time, and the time since the start."""
    days, rest = divmod(now - start, 24 * 60 * 60)
    minutes, seconds = divmod(rest, 60)
    running = f"{minutes // 60:02.0f}:{minutes % 60:02.0f}:{seconds:05.2f}"
    if days:
        running = f"{days:.0f} days, {running}"
    return f"Current time: {datetime.datetime.fromtimestamp(now):%Y-%m-%d %H:%M:%S} (running for {running})"


def best(trial: Any, metric: str, parameters: Mapping[str, str] | None) -> str:
    """Return the line about the best trial."""
    config = trial.last_result.get("config") or trial.config
    shown = {name: lookup(name, config) for name in parameters or config}
    return (
        f"Current best trial: {trial.trial_id} with {metric}={lookup(metric, trial.last_result)} and "
        f"parameters={shown}"
    )


def failed(trials: Sequence[Any], most: int | None) -> list[str]:
    """Return the lines about failed trials."""
    found = [trial for trial in trials if trial.error_file]
    if not found:
        return []
    lines = [f"Number of errored trials: {len(found)}"]
    if most is not None and len(found) > most:
        lines.append(f"Table truncated to {most} rows ({len(found) - most} overflow)")
        found = found[:most]
    rows = [
        [str(trial), f"{trial.num_failures}{'' if trial.status == Trial.ERROR else '*'}", trial.error_file]
        for trial in found
    ]
    lines.append(psql(["Trial name", "# failures", "error file"], rows, right={1}))
    if any(trial.status == Trial.TERMINATED for trial in found):
        lines.append("* The trial terminated successfully after retrying.")
    return lines


def table(
    trials: Sequence[Any],
    metrics: Mapping[str, str],
    parameters: Mapping[str, str] | None,
    *,
    most: int | None,
    width: int,
    sort_by: tuple[str, str] | None,
) -> TrialTable:
    """Make the table of trials.

    Args:
        trials: All trials.
        metrics: Headings by name; those without a value are left out.
        parameters: Headings by name; None for all that the search has drawn.
        most: The most rows, of which each status gets its share; None for no limit.
        width: The most characters of a value.
        sort_by: A metric and a mode that order the terminated trials; None for the order of the trials.
    """
    groups = by_status(trials)
    if sort_by is not None and Trial.TERMINATED in groups:
        metric, mode = sort_by
        sign = -1.0 if mode == "max" else 1.0
        groups[Trial.TERMINATED].sort(key=lambda trial: _rank(lookup(metric, trial.last_result), sign))
    left_out = ""
    if most is not None and len(trials) > most:
        shares = _shares({status: len(each) for status, each in groups.items()}, most)
        missing = []
        for status in _SHOWN_FIRST:
            if status not in groups:
                continue
            group = groups[status]
            if not (sort_by is not None and status == Trial.TERMINATED):
                group = sorted(group, key=lambda trial: str(trial.trial_id))
            if len(group) > shares[status]:
                missing.append(f"{len(group) - shares[status]} {status}")
            groups[status] = group[: shares[status]]
        left_out = f"... {len(trials) - most} more trials not shown ({', '.join(missing)})"
    shown = [trial for status in _SHOWN_FIRST for trial in groups.get(status, ())]
    names = [name for name in metrics if any(lookup(name, each.last_result) is not None for each in shown)]
    if parameters is None:
        drawn: set[str] = set().union(*(each.evaluated_params for each in shown))
        parameters = {name: name for name in sorted(drawn)}
    headings = [*parameters.values(), *(metrics[name] for name in names)]
    rows = []
    for each in shown:
        values = [lookup(name, each.config) for name in parameters]
        values += [lookup(name, each.last_result) for name in names]
        rows.append([str(each), each.status, _location(each), *(short(value, width) for value in values)])
    return TrialTable(
        ["Trial name", "status", "loc", *(wrapped(heading, width) for heading in headings)], rows, left_out
    )


def _rank(value: Any, sign: float) -> tuple[bool, float]:
    return (value is None, 0.0 if value is None else sign * float(value))


def _shares(sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Divide rows among statuses: all get one in turn, until none is left or all trials have one."""
    found = dict.fromkeys(sizes, 0)
    left = most
    while left > 0 and found != sizes:
        for status in sorted(sizes):
            if found[status] < sizes[status]:
                found[status] += 1
                left -= 1
    return found


def _location(trial: Any) -> str:
    node, pid = trial.last_result.get("node_ip"), trial.last_result.get("pid")
    return f"{node}:{pid}" if node and pid else ""


def lookup(name: str, values: Any) -> Any:
    """Return the value of a name such as "a/b/0" in nested dicts and lists; None if there is none."""
    if isinstance(values, Mapping) and name in values:
        return values[name]
    for part in name.split("/"):
        try:
            values = values[part if isinstance(values, Mapping) else int(part)]
        except (LookupError, TypeError, ValueError):
            return None
    return values


def short(value: Any, width: int) -> Any:
    """Return numbers as they are, and the end of a text that is too long."""
    if value is None or isinstance(value, numbers.Number):
        return value
    text = str(value)
    return text if len(text) <= width else "..." + text[3 - width :]


def wrapped(heading: str, width: int) -> str:
    """Break a long heading into at most two lines."""
    if len(heading) <= width:
        return heading
    if len(heading) > 2 * width:
        heading = "..." + heading[3 - 2 * width :]
    return "\n".join(textwrap.wrap(heading, width))


def psql(
    headings: Sequence[str], rows: Sequence[Sequence[Any]], right: set[int] | frozenset[int] = frozenset()
) -> str:
    """Format a table as psql does: numbers are aligned at their points, texts at the left.

    Args:
        headings: One for each column; may have several lines.
        rows: The values.
        right: Columns of texts to align at the right.
    """
    columns = [[row[at] for row in rows] for at in range(len(headings))]
    at_right = [at in right or _numeric(column) for at, column in enumerate(columns)]
    texts = [_texts(column) for column in columns]
    lines_of = [heading.split("\n") for heading in headings]
    widths = [
        max([len(line) + 2 for line in lines_of[at]] + [len(text) for text in texts[at]])
        for at in range(len(headings))
    ]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, at_right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = "+".join("-" * (width + 2) for width in widths)
    height = max(len(lines) for lines in lines_of)
    heads = [line([(lines + [""] * height)[at] for lines in lines_of]) for at in range(height)]
    body = [line([text[at] for text in texts]) for at in range(len(rows))]
    return "\n".join([f"+{rule}+", *heads, f"|{rule}|", *body, f"+{rule}+"])


def _numeric(column: Sequence[Any]) -> bool:
    known = [value for value in column if value is not None]
    return bool(known) and all(_is_numeral(value) for value in known)


def _is_numeral(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, numbers.Real) or (
        isinstance(value, str) and _NUMERAL.fullmatch(value) is not None
    )


def _texts(column: Sequence[Any]) -> list[str]:
    """Return the texts of a column; those of numbers have their points at the same distance from the end."""
    if not _numeric(column):
        return ["" if value is None else str(value) for value in column]
    whole = all(isinstance(value, numbers.Integral | str) for value in column if value is not None)
    if whole:
        return ["" if value is None else str(value) for value in column]
    found = ["" if value is None else f"{float(value):g}" for value in column]
    behind = [_behind_the_point(text) for text in found]
    most = max(behind)
    return [text + " " * (most - count) if text else text for text, count in zip(found, behind, strict=True)]


def _behind_the_point(text: str) -> int:
    """Return the number of characters from the point, or the exponent, to the end; -1 if there is neither."""
    for mark in (".", "e"):
        if mark in text and not math.isinf(float(text)):
            return len(text) - text.index(mark) - 1
    return -1
