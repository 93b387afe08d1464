"""``skate rsync-down``: copies files from the head of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import config_of, parser, path_pair, report_errors
from skate.launcher import launch

SUMMARY = "copy files from the head of a cluster file"


def main(arguments: Sequence[str]) -> int:
    """Copy and return 0; 1 if that fails."""
    made = parser("rsync-down", SUMMARY)
    path_pair(made, "fetch")
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        if given.source is None:
            raise ValueError("name what to fetch: skate rsync-down CLUSTER.yaml SOURCE TARGET")
        launch.head_of(config).copy(given.source, given.target or given.source, down=True)
        return 0

    return report_errors("rsync-down", act)
