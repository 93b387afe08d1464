"""Formats of rows on the command line: aligned columns, YAML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

FORMATS = ("default", "json", "yaml", "table")
NO_ROWS = "No resource in the cluster"
#: Texts that YAML reads as texts without quotes.
_PLAIN = re.compile(r"[A-Za-z_/][\w ./()<>+-]*(?<! )")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "none"})


def formatted(rows: list[dict[str, Any]], format: str) -> str:
    """Return rows in one of `FORMATS`."""
    if format == "json":
        return json.dumps(rows, default=str)
    if format == "yaml":
        return f"---\n{yaml_text(rows)}\n...\n"
    numbered = [{"": number, **row} for number, row in enumerate(rows)]
    return (
        f"\n======== List: {datetime.now()} ========\nStats:\n------------------------------\n"
        f"Total: {len(rows)}\n\nTable:\n------------------------------\n{table(numbered)}\n"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as aligned columns with a header line."""
    if not rows:
        return "nothing"
    lines = [
        [name.upper() for name in rows[0]],
        *[["" if v is None else str(v) for v in row.values()] for row in rows],
    ]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def yaml_text(value: Any) -> str:
    """Return dicts, lists and plain values as YAML, in their order."""
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of a value; those of a dict's or list's entries are indented by their caller."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            if isinstance(each, (dict, list, tuple)) and each:
                yield f"{_scalar(key)}:"
                yield from (f"    {line}" for line in _lines(each))
            else:
                yield f"{_scalar(key)}: {_scalar(each)}"
    elif isinstance(value, (list, tuple)) and value:
        for each in value:
            first, *rest = _lines(each)
            yield f"-   {first}"
            yield from (f"    {line}" for line in rest)
    else:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, (dict, list, tuple)):
        return "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, float):
        text = repr(value)
        known = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
        return known.get(text) or (text if "." in text else text.replace("e", ".0e"))
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
