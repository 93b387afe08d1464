"""Values for JSON: browsers know no NaN, and nothing may be longer than a page can show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

#: What JSON can have.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
#: The most characters of a text, and the most entries of a list or object.
TEXT_MAX = 8_000
ENTRIES_MAX = 5_000
DEPTH_MAX = 12


def plain(value: object, depth: int = 0) -> Json:
    """Return a value for JSON: NaN and infinities become texts, long texts and lists are cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + "…"
    if depth >= DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): plain(value[name], depth + 1) for name in list(value)[:ENTRIES_MAX]}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each, depth + 1) for each in list(value)[:ENTRIES_MAX]]
    return str(value)[:TEXT_MAX]


def number(value: object) -> float | None:
    """Return a finite number, or None. A truth value is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def texts(value: object) -> list[str]:
    """Return the texts of a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


def rows(value: object) -> list[dict[str, object]]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []
