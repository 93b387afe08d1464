"""``skate summary``: counts of tasks, actors and objects."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from skate.command.session import add_options, print_of
from skate.command.state.row_formats import table
from skate.util.state.summary import summarize

RULE = "-" * 36
SUMMARY = "print counts of tasks, actors or objects"


def main(arguments: Sequence[str]) -> int:
    """Print the summary and return 0, or 1 if there is no session."""
    parser = argparse.ArgumentParser(prog="skate summary", description=SUMMARY)
    parser.add_argument("kind", choices=("tasks", "actors", "objects"))
    add_options(parser, url=True)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds to wait for an answer")
    given = parser.parse_args(arguments)
    return print_of(
        given,
        lambda address: _text(given.kind, summarize(given.kind, given.timeout, False, address)["cluster"]),
    )


def _text(kind: str, whole: dict[str, Any]) -> str:
    rows = []
    for name, one in whole.pop("summary").items():
        row: dict[str, Any] = {"name": name}
        for key, value in one.items():
            if key not in ("func_or_class_name", "class_name"):
                row[key] = (
                    ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
                )
        rows.append(row)
    group = whole.pop("summary_by")
    totals = "\n".join(f"{key}: {value}" for key, value in whole.items())
    return (
        f"\n======== {kind.capitalize()} Summary: {datetime.now()} ========\nStats:\n{RULE}\n{totals}\n\n"
        f"Table (group by {group}):\n{RULE}\n{table(rows)}"
    )
