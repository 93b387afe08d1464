"""``skate memory``: the references that keep objects alive."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skate.command.session import add_options, print_of
from skate.util.state.memory import GROUPS, ORDERS, UNITS, memory_summary

SUMMARY = "print the references that keep objects alive, the largest objects first"


def main(arguments: Sequence[str]) -> int:
    """Print the table and return 0, or 1 if there is no session."""
    parser = argparse.ArgumentParser(prog="skate memory", description=SUMMARY)
    add_options(parser)
    parser.add_argument("--group-by", default="NODE_ADDRESS", choices=GROUPS)
    parser.add_argument("--sort-by", default="OBJECT_SIZE", choices=ORDERS)
    parser.add_argument("--units", default="B", choices=UNITS)
    parser.add_argument("--no-format", "--nf", action="store_true", help="accepted for compatibility")
    parser.add_argument("--stats-only", action="store_true", help="only the totals")
    parser.add_argument("--num-entries", "-n", "--n", type=int, help="the most lines of each table")
    given = parser.parse_args(arguments)
    return print_of(
        given,
        lambda _: memory_summary(
            group_by=given.group_by,
            sort_by=given.sort_by,
            units=given.units,
            stats_only=given.stats_only,
            num_entries=given.num_entries,
        ),
    )
