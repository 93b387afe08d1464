"""``skate report``: writes a report about a session to one HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skate.command.session import add_options, run_in
from skate.util.report import write_report

SUMMARY = "write what failed, waits, ran and holds memory to one HTML file"
DEFAULT = "skate-report.html"


def main(arguments: Sequence[str]) -> int:
    """Write the file, print its path, and return 0; 1 if there is no session."""
    parser = argparse.ArgumentParser(prog="skate report", description=SUMMARY)
    add_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default=DEFAULT, help=f"default: {DEFAULT}")
    given = parser.parse_args(list(arguments))

    def act(_: str | None) -> None:
        write_report(given.output)
        print(f"The report is in {given.output}.")

    return run_in(given, act)
