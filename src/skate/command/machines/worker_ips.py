"""``skate get-worker-ips``: the addresses of the workers of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import config_of, parser, report_errors

SUMMARY = "print the addresses of the workers of a cluster file, one a line"


def main(arguments: Sequence[str]) -> int:
    """Print the addresses and return 0; 1 if the file is invalid."""
    given = parser("get-worker-ips", SUMMARY).parse_args(list(arguments))

    def act() -> int:
        for address in config_of(given).workers:
            print(address)
        return 0

    return report_errors("get-worker-ips", act)
