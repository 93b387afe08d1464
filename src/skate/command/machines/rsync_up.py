"""``skate rsync-up``: copies files to the machines of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import config_of, parser, path_pair, report_errors, warn
from skate.launcher import launch

SUMMARY = "copy files to the head of a cluster file, or to all its machines"


def main(arguments: Sequence[str]) -> int:
    """Copy and return 0; 1 if a machine has not received the files."""
    made = parser("rsync-up", SUMMARY)
    path_pair(made, "send")
    made.add_argument("-A", "--all-nodes", action="store_true", help="to the workers as well")
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        failed = launch.send_files(config, given.source, given.target, given.all_nodes)
        warn(failed, "has not received the files")
        return 1 if failed else 0

    return report_errors("rsync-up", act)
