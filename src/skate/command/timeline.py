"""``skate timeline``: writes the recent tasks as a trace for Perfetto or chrome://tracing."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime

import skate
from skate.command.session import add_options, run_in

SUMMARY = "write the recent tasks to a file that Perfetto and chrome://tracing show"


def main(arguments: Sequence[str]) -> int:
    """Write the file, print its path, and return 0; 1 if there is no session."""
    parser = argparse.ArgumentParser(prog="skate timeline", description=SUMMARY)
    add_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="default: ray-timeline-DATE.json in /tmp",
    )
    given = parser.parse_args(arguments)
    name = f"ray-timeline-{datetime.now():%Y-%m-%d_%H-%M-%S}.json"
    path = given.output or os.path.join(tempfile.gettempdir(), name)

    def act(_: str | None) -> None:
        skate.timeline(filename=path)
        print(f"The trace is in {path}; open it in https://ui.perfetto.dev or chrome://tracing.")

    return run_in(given, act)
