"""``skate list``: the rows of the state API as a table, YAML or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from skate.command.session import add_options, print_of
from skate.command.state.row_formats import FORMATS, NO_ROWS, formatted
from skate.util.state.api import find
from skate.util.state.common import DEFAULT_LIMIT, DEFAULT_RPC_TIMEOUT, SCHEMAS

SUMMARY = "print the actors, tasks, objects, nodes, ... of a session"


def main(arguments: Sequence[str]) -> int:
    """Print the rows and return 0; 1 if there is no session, 2 if it cannot answer."""
    parser = argparse.ArgumentParser(prog="skate list", description=SUMMARY)
    parser.add_argument("kind", choices=[name.replace("_", "-") for name in SCHEMAS])
    add_options(parser, url=True)
    parser.add_argument("--filter", "-f", action="append", default=[], help="column=value or column!=value")
    parser.add_argument(
        "--limit", type=int, default=DEFAULT_LIMIT, help="the most rows; default: %(default)s"
    )
    parser.add_argument("--detail", action="store_true", help="all columns, as YAML by default")
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_RPC_TIMEOUT, help="seconds to wait; default: %(default)s"
    )
    parser.add_argument("--format", default="default", choices=FORMATS)
    given = parser.parse_args(arguments)
    kind = given.kind.replace("-", "_")
    filters = [_filter(parser, kind, text) for text in given.filter]
    format = "yaml" if given.detail and given.format == "default" else given.format

    def make(address: str | None) -> str:
        rows = find(kind, filters, given.limit, given.timeout, given.detail, False, address)
        return formatted(shown(rows, given.detail), format) if rows else NO_ROWS

    return print_of(given, make)


def shown(rows: Sequence[Any], detail: bool) -> list[dict[str, Any]]:
    """Return rows as dicts, without the columns that only details have."""
    return [
        {
            name: value
            for name, value in row.asdict().items()
            if detail or not row.__dataclass_fields__[name].metadata["detail"]
        }
        for row in rows
    ]


def _filter(parser: argparse.ArgumentParser, kind: str, text: str) -> tuple[str, str, str]:
    """Parse a condition. The name of a column may be in upper case."""
    predicate = "!=" if text.partition("=")[0].endswith("!") else "="
    key, found, value = text.partition(predicate)
    if not found or not key.strip() or not value.strip():
        parser.error(f"--filter must be column=value or column!=value, got {text!r}")
    columns = sorted(SCHEMAS[kind].filterable_columns())
    if key.strip().lower() not in columns:
        parser.error(f"{kind} cannot be filtered by {key.strip()!r}; use one of: {', '.join(columns)}")
    return key.strip().lower(), predicate, value.strip()
