"""The metrics of the session in the text format of Prometheus, under Ray's names."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from typing import Any

from skate.client.state import metric_rows
from skate.version import RAY_VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "ray_"
#: Metrics that keep their names: those of Skate alone, and those to which Ray gives no prefix.
WITHOUT_PREFIX = ("skate_", "autoscaler_")
#: The most series of a page; of the metrics beyond, the largest are left out.
SERIES_MAX = 5_000
#: The texts of labels that are kept: those of two pages.
LABELS_KEPT = 2 * SERIES_MAX
LEFT_OUT = "skate_exposition_series_left_out"

Row = dict[str, Any]
Labels = tuple[tuple[str, str], ...]


class _Family:
    """All series of one name."""

    def __init__(self, kind: str, description: str, boundaries: tuple[float, ...]) -> None:
        self.kind = kind
        self.description = description
        self.boundaries = boundaries
        #: The values, by the labels in the text format.
        self.series: dict[str, tuple[float, tuple[int, ...]]] = {}

    def add(self, labels: str, number: float, counts: tuple[int, ...]) -> None:
        """Add a series, or its values to one with the same labels from another node."""
        before = self.series.get(labels)
        if before is not None and self.kind != "gauge":
            number += before[0]
            counts = tuple(a + b for a, b in zip(before[1], counts, strict=True))
        self.series[labels] = number, counts


def exposition(timeout: float = 1.0, more: Iterable[Row] = ()) -> str:
    """Return the metrics of all nodes and processes of the session.

    Args:
        timeout: how many seconds to wait for processes that do not answer; they are present with their last report.
        more: further metrics, in the form of those of the session.

    Raises:
        RuntimeError: no session is running.
        TimeoutError: no node has answered.
    """
    return text([*metric_rows.collect(timeout), *more], {"SessionName": metric_rows.session_name()})


def rows(timeout: float = 1.0) -> list[Row]:
    """Return the metrics of all nodes and processes as rows: name, kind, boundaries, and series of labels, value and counts.

    Args: timeout: as for `exposition`.

    Raises:
        RuntimeError: no session is running.
        TimeoutError: no node has answered.
    """
    return metric_rows.collect(timeout)


def text(rows: Iterable[Row], labels: dict[str, str]) -> str:
    """Return rows of metrics in the text format, each series with some more labels, if it has none of that name."""
    families: dict[str, _Family] = {}
    for row in rows:
        name = _name(row["name"], row["kind"])
        boundaries = tuple(row["boundaries"])
        family = families.setdefault(name, _Family(row["kind"], row["description"], boundaries))
        if (family.kind, family.boundaries) != (row["kind"], boundaries):
            continue  # two processes have declared different metrics under one name
        common = (*labels.items(), ("Version", RAY_VERSION), ("NodeAddress", row["node_ip"]))
        for tags, number, counts, _ in row["series"]:
            family.add(_text_of(common, tuple(map(tuple, tags))), number, tuple(counts))
    left_out = _cut(families)
    lines = [line for name, family in sorted(families.items()) for line in _lines(name, family)]
    lines += _lines(LEFT_OUT, _left_out(left_out))
    return "\n".join(lines) + "\n"


def _name(name: str, kind: str) -> str:
    full = name if name.startswith(WITHOUT_PREFIX) else PREFIX + name
    return f"{full}_total" if kind == "counter" and not full.endswith("_total") else full


def _cut(families: dict[str, _Family]) -> int:
    """Remove the largest families until few enough series are left; return how many series are gone."""
    sizes = {
        name: len(family.series) * (len(family.boundaries) + 3 if family.boundaries else 1)
        for name, family in families.items()
    }
    gone = 0
    while sum(sizes.values()) > SERIES_MAX:
        largest = max(sizes, key=lambda name: (sizes[name], name))
        gone += sizes.pop(largest)
        del families[largest]
    return gone


def _left_out(count: int) -> _Family:
    family = _Family("gauge", f"Series beyond {SERIES_MAX}, which this page leaves out.", ())
    family.add("", float(count), ())
    return family


def _lines(name: str, family: _Family) -> Iterable[str]:
    description = family.description.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {description or name}"
    yield f"# TYPE {name} {family.kind}"
    for labels, (number, counts) in sorted(family.series.items()):
        if family.kind != "histogram":
            yield f"{name}{_braces(labels)} {_number(number)}"
            continue
        bounds = [*map(_number, family.boundaries), "+Inf"]
        totals = list(itertools.accumulate(counts))
        for bound, total in zip(bounds, totals, strict=True):
            le = f'le="{bound}"'
            yield f"{name}_bucket{_braces(labels, le)} {total}"
        yield f"{name}_count{_braces(labels)} {totals[-1]}"
        yield f"{name}_sum{_braces(labels)} {_number(number)}"


@functools.lru_cache(LABELS_KEPT)
def _text_of(common: Labels, tags: Labels) -> str:
    """Return labels in the text format, sorted; tags come before common labels of the same name."""
    merged = sorted({**dict(common), **dict(tags)}.items())
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in merged)


def _braces(labels: str, more: str = "") -> str:
    inside = f"{labels},{more}" if labels and more else labels or more
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


__all__ = ["CONTENT_TYPE", "exposition", "text"]
