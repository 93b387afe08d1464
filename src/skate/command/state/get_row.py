"""``skate get``: one row of the state API, with all columns."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skate.command.session import add_options, print_of
from skate.command.state.list_rows import shown
from skate.command.state.row_formats import formatted
from skate.util.state.api import ID_COLUMNS, rows_of
from skate.util.state.common import DEFAULT_RPC_TIMEOUT

SUMMARY = "print one actor, task, object, node, ... with all details"


def main(arguments: Sequence[str]) -> int:
    """Print the row as YAML and return 0, also if there is none; 1 if there is no session, 2 if it cannot answer."""
    parser = argparse.ArgumentParser(prog="skate get", description=SUMMARY)
    parser.add_argument("kind", choices=[name.replace("_", "-") for name in ID_COLUMNS])
    parser.add_argument("id", nargs="?", help="the id, which `skate list` shows")
    add_options(parser, url=True)
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_RPC_TIMEOUT, help="seconds to wait; default: %(default)s"
    )
    given = parser.parse_args(arguments)
    if not given.id:
        parser.error(f"the id is missing; `skate list {given.kind}` shows the ids")

    def make(address: str | None) -> str:
        rows = rows_of(given.kind.replace("-", "_"), given.id, given.timeout, address)
        if not rows:
            return f"Resource with id={given.id} not found in the cluster."
        return formatted(shown(rows, True), "yaml")

    return print_of(given, make)
