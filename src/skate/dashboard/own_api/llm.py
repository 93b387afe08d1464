"""Models that are served: tokens, times to the first token, slots, cache and queues."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.own_api.readings.announcements import Announcements, about
from skate.dashboard.own_api.readings.plain import number, plain
from skate.dashboard.own_api.readings.rings import Buckets, Ring, Things, quantile
from skate.util.announcements import Announced

RECENT_SECONDS = 60.0
SHARES = (50, 95, 99)
#: The histograms of times and speeds.
HISTOGRAMS = ("ttft_engine_seconds", "ttft_framework_seconds", "tokens_per_second")
CHARTED = (
    "tokens_in_per_s",
    "tokens_out_per_s",
    "running",
    "waiting",
    "ttft_p50_s",
    "ttft_p95_s",
    "cache_share",
)

_announced = Announcements("llm")
_totals = Things(Ring)
_charts = Things(Ring)
_buckets = Things(Buckets)


def models(request: Request) -> Response:
    """Return the replicas of models, the latest first; with `key`, one of them with its readings."""
    key = request.query_params.get("key", "")
    found = [_replica(each) for each in _announced.rows() if key in ("", each.key)]
    if key:
        found = [{**each, "readings": _charts.of(key).columns(CHARTED)} for each in found]
    return JSONResponse(plain({"at": time.time(), "models": found}))


def _replica(each: Announced) -> dict[str, object]:
    requests, engine = _object(each.figures.get("requests")), _object(each.figures.get("engine"))
    totals = _totals.of(each.key)
    counted = {
        "in": number(requests.get("prompt_tokens_total")),
        "out": number(requests.get("generated_tokens_total")),
        "steps": number(engine.get("steps")),
    }
    if each.is_reachable and requests:
        totals.add(counted)
    times = {name: _quantiles(each, name, requests.get(name)) for name in HISTOGRAMS}
    asked, cached = number(engine.get("prompt_tokens_asked")), number(engine.get("prompt_tokens_cached"))
    now: dict[str, float | None] = {
        "tokens_in_per_s": totals.rate("in"),
        "tokens_out_per_s": totals.rate("out"),
        "steps_per_s": totals.rate("steps"),
        "running": number(requests.get("requests_running")),
        "waiting": number(engine.get("waiting")),
        "ttft_p50_s": times["ttft_engine_seconds"]["p50"],
        "ttft_p95_s": times["ttft_engine_seconds"]["p95"],
        "cache_share": _share(engine),
    }
    if each.is_reachable and requests:
        _charts.of(each.key).add(now)
    ended = {
        name.partition(":")[2]: value
        for name, value in requests.items()
        if name.startswith("requests_total:")
    }
    return {
        **about(each),
        **{name: each.facts.get(name) for name in ("model", "weights", "max_model_len")},
        "engine_name": each.facts.get("engine"),
        **now,
        "tokens_in": counted["in"],
        "tokens_out": counted["out"],
        "prompts_found_in_cache": cached / asked if asked and cached is not None else None,
        "figures": {name: value for name, value in engine.items() if number(value) is not None},
        "request_ends": ended,
        "times": times,
    }


def _share(engine: Mapping[str, object]) -> float | None:
    """Return the used share of the cache: as the engine says it, else of its slots."""
    said = number(engine.get("cache_share"))
    slots, used = number(engine.get("slots")), number(engine.get("slots_used"))
    return said if said is not None else used / slots if slots and used is not None else None


def _quantiles(each: Announced, name: str, histogram: object) -> dict[str, float | None]:
    found = _object(histogram)
    counts, bounds = _numbers(found.get("counts")), _numbers(found.get("bounds"))
    buckets = _buckets.of(f"{each.key}/{name}")
    if counts:
        buckets.add(counts)
    recent = buckets.recent(RECENT_SECONDS)
    if not sum(recent):  # without requests in the last minute, those since the start
        recent = buckets.all()
    return {f"p{share}": quantile(recent, bounds, share / 100) if bounds else None for share in SHARES}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _numbers(value: object) -> list[float]:
    return [found for each in value if (found := number(each)) is not None] if isinstance(value, list) else []
