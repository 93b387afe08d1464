"""Announcements of a user's own programs: the last values of whatever each says, and the numbers among them over time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.mask import HIDDEN, is_secret, sees_everything
from skate.dashboard.own_api.readings.announcements import Announcements, about
from skate.dashboard.own_api.readings.plain import number, plain
from skate.dashboard.own_api.readings.rings import Ring, Things
from skate.util.announcements import Announced

#: The libraries that have views of their own.
LIBRARIES = frozenset({"data", "train", "tune", "serve", "llm"})
#: The most values that are shown of one, and the most numbers that have a curve.
VALUES_MAX, CHARTED_MAX = 200, 24
DEPTH_MAX = 4

_announced = Announcements("", LIBRARIES)
_rings = Things(Ring)


def programs(request: Request) -> Response:
    """Return what is announced, the latest first; with `key`, one of them with the readings of its numbers."""
    key, open_all = request.query_params.get("key", ""), sees_everything(request)
    found = [_program(each, open_all) for each in _announced.rows()]
    if key:
        found = [{**each, "readings": _readings(each)} for each in found if each["key"] == key]
    return JSONResponse(plain({"at": time.time(), "programs": found}))


def _program(each: Announced, open_all: bool) -> dict[str, object]:
    facts, values = (dict(_flat(part, open_all)) for part in (each.facts, each.figures))
    state = "ended" if each.ended else "running" if each.is_reachable else "lost"
    if not each.ended and each.is_reachable:
        _rings.of(each.key).add({name: number(value) for name, value in values.items()})
    return {**about(each), "kind": each.library, "state": state, "facts": facts, "values": values}


def _readings(program: Mapping[str, object]) -> object:
    """Return the numbers as columns over time."""
    values = program["values"]
    assert isinstance(values, dict)
    charted = [name for name, value in values.items() if number(value) is not None][:CHARTED_MAX]
    return _rings.of(str(program["key"])).columns(charted)


def _flat(value: Mapping[str, object], open_all: bool) -> Iterator[tuple[str, object]]:
    """Yield the values by name; those inside of others have names with dots. What is named like a secret is hidden."""
    left = VALUES_MAX

    def inside(part: Mapping[str, object], before: str, depth: int) -> Iterator[tuple[str, object]]:
        nonlocal left
        for name, each in part.items():
            if isinstance(each, Mapping) and each and depth < DEPTH_MAX and not is_secret(str(name)):
                yield from inside(each, f"{before}{name}.", depth + 1)
            elif left > 0:
                left -= 1
                yield f"{before}{name}", HIDDEN if is_secret(str(name)) and not open_all else each

    yield from inside(value, "", 1)
