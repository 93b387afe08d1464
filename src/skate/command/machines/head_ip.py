"""``skate get-head-ip``: the address of the head of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import config_of, parser, report_errors

SUMMARY = "print the address of the head of a cluster file"


def main(arguments: Sequence[str]) -> int:
    """Print the address and return 0; 1 if the file is invalid."""
    given = parser("get-head-ip", SUMMARY).parse_args(list(arguments))

    def act() -> int:
        print(config_of(given).head_login)
        return 0

    return report_errors("get-head-ip", act)
