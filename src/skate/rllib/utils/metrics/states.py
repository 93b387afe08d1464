"""State of statistics in checkpoints: our own fields, and those that Ray reads."""

from __future__ import annotations

import math
from typing import Any

from skate.rllib.utils.metrics.statistics import (
    KINDS,
    Ema,
    Item,
    ItemSeries,
    LifetimeSum,
    Percentiles,
    Series,
    Statistic,
    Sum,
)


def state_of(statistic: Statistic) -> dict[str, Any]:
    """Return a picklable dict from which `statistic_of` makes an equal statistic, and Ray one that continues it."""
    return {
        "stats_cls_identifier": statistic.kind,
        "is_root": statistic.root,
        "is_leaf": not statistic.is_merged,
        "latest_merged": None,
        **_fields_of_ray(statistic),
        "settings": statistic.settings(),
        "held": statistic.held(),
    }


def _fields_of_ray(statistic: Statistic) -> dict[str, Any]:
    if isinstance(statistic, LifetimeSum):
        return {"lifetime_sum": statistic.peek(), "track_throughputs": statistic.with_throughput}
    if isinstance(statistic, Ema):
        # What was merged is the mean of a round that has ended; Ray begins the next one without it.
        value = math.nan if statistic.is_merged else statistic.peek()
        return {"ema_coeff": statistic.ema_coeff, "value": value, "values_to_merge": []}
    if isinstance(statistic, Item):
        return {"item": statistic.peek() if statistic.values else None}
    if not isinstance(statistic, Series):
        return {}
    found: dict[str, Any] = {"window": statistic.window, "values": _values_for_ray(statistic)}
    if isinstance(statistic, Sum):
        found["track_throughput"] = statistic.with_throughput
    elif isinstance(statistic, Percentiles):
        found["percentiles"] = statistic.percentiles
    return found


def _values_for_ray(statistic: Series) -> list[Any]:
    if statistic.is_merged or statistic.is_empty:
        return []  # Ray keeps windows where values are logged, and nothing of a round after its end
    if statistic.window is None and not isinstance(statistic, ItemSeries | Percentiles):
        return [statistic.peek()]
    values: list[Any] = statistic.held()["values"]
    return values


def statistic_of(state: dict[str, Any]) -> Statistic:
    """Return the statistic that `state_of` described, here or in Ray."""
    if "held" not in state:
        return _statistic_of_ray(state)
    made = KINDS[state["stats_cls_identifier"]](**state["settings"], root=state["is_root"])
    made.hold(state["held"])
    made.is_merged = not state["is_leaf"]
    return made


def _statistic_of_ray(state: dict[str, Any]) -> Statistic:
    """Return a statistic of Ray's checkpoints: sums over all rounds, and the newest value of the others."""
    kind = state["stats_cls_identifier"]
    root = state["is_root"]
    if kind == "lifetime_sum":
        total = LifetimeSum(bool(state.get("track_throughputs")), root=root)
        total.push(state["lifetime_sum"])
        total.is_merged = not state["is_leaf"]
        return total
    names = {"window": "window", "ema_coeff": "ema_coeff", "percentiles": "percentiles"}
    settings = {ours: state[theirs] for theirs, ours in names.items() if state.get(theirs) is not None}
    made = KINDS[kind](**settings, root=root)
    newest = state.get("latest_merged")
    if kind in ("mean", "min", "max", "ema") and isinstance(newest, list) and newest:
        made.push(float(newest[0]))
    made.is_merged = not state["is_leaf"]
    return made
