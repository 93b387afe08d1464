"""``skate list``: the rows of the state API as a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from skate.command.session import ADDRESS_HELP, print_of
from skate.util.state.api import find
from skate.util.state.common import DEFAULT_LIMIT, SCHEMAS

SUMMARY = "print the actors, tasks, objects, nodes, ... of a session"


def main(arguments: Sequence[str]) -> int:
    """Print the rows and return 0, or 1 if there is no session."""
    parser = argparse.ArgumentParser(prog="skate list", description=SUMMARY)
    parser.add_argument("kind", choices=[name.replace("_", "-") for name in SCHEMAS])
    parser.add_argument("--address", help=ADDRESS_HELP)
    parser.add_argument("--filter", "-f", action="append", default=[], help="column=value or column!=value")
    parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help="the most rows")
    parser.add_argument("--detail", action="store_true", help="all columns")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds to wait for an answer")
    parser.add_argument("--format", default="default", choices=("default", "table", "json"))
    given = parser.parse_args(arguments)
    filters = [_filter(parser, text) for text in given.filter]

    def make() -> str:
        rows = find(given.kind.replace("-", "_"), filters, given.limit, given.timeout, given.detail, False)
        shown = [
            {
                name: value
                for name, value in row.asdict().items()
                if given.detail or not row.__dataclass_fields__[name].metadata["detail"]
            }
            for row in rows
        ]
        return json.dumps(shown, indent=2, default=str) if given.format == "json" else table(shown)

    return print_of(given.address, make)


def _filter(parser: argparse.ArgumentParser, text: str) -> tuple[str, str, str]:
    predicate = "!=" if "!=" in text else "="
    key, found, value = text.partition(predicate)
    if not found:
        parser.error(f"--filter must be column=value or column!=value, got {text!r}")
    return key.strip().lower(), predicate, value.strip()


def table(rows: list[dict[str, Any]]) -> str:
    """Format rows as aligned columns with a header line."""
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
