"""Datasets that run or have run: their operators, and what holds each back."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.own_api.readings.announcements import Announcements, about
from skate.dashboard.own_api.readings.plain import number, plain, rows
from skate.dashboard.own_api.readings.rings import Ring, Things
from skate.util.announcements import Announced

_announced = Announcements("data")
_rings = Things(Ring)
#: The numbers of an operator that the charts show.
CHARTED = ("rows", "held_bytes", "running")


def datasets(request: Request) -> Response:
    """Return the datasets, the latest first; with `key`, one of them with the readings of its operators."""
    key = request.query_params.get("key", "")
    found = [_dataset(each) for each in _announced.rows()]
    if key:
        found = [{**each, "readings": _readings(each)} for each in found if each["key"] == key]
    return JSONResponse(plain({"at": time.time(), "datasets": found}))


def _dataset(each: Announced) -> dict[str, object]:
    figures = each.figures
    operators = [_operator(each, place, row) for place, row in enumerate(rows(figures.get("operators")))]
    state = "running" if not each.ended else "failed" if each.facts.get("error") else "ended"
    if not each.ended and not each.is_reachable:
        state = "lost"
    return {
        **about(each),
        "dataset": each.facts.get("dataset", each.id),
        "state": state,
        "error": each.facts.get("error", ""),
        "seconds": figures.get("seconds"),
        "budget_bytes": figures.get("budget_bytes"),
        "slots": figures.get("slots"),
        "errors": figures.get("errors"),
        "rows": operators[-1]["rows_out"] if operators else None,
        "held_back": [row["name"] for row in operators if row["rule"] not in ("", "done", "input")],
        "operators": operators,
    }


def _operator(each: Announced, place: int, row: dict[str, object]) -> dict[str, object]:
    ring = _rings.of(f"{each.key}/{place}")
    made, seconds = number(row.get("rows_out")), number(each.figures.get("seconds"))
    if not each.ended and each.is_reachable:
        names = {"rows": "rows_out", "held_bytes": "held_bytes", "running": "running"}
        ring.add({name: number(row.get(source)) for name, source in names.items()})
    average = made / seconds if made is not None and seconds else None
    now = None if each.ended or row.get("state") == "done" else ring.rate("rows")
    return {"rule": "", "rows_out": None, **row, "rows_per_s": now, "rows_per_s_average": average}


def _readings(dataset: dict[str, object]) -> list[object]:
    operators = rows(dataset.get("operators"))
    return [_rings.of(f"{dataset['key']}/{place}").columns(CHARTED) for place in range(len(operators))]
