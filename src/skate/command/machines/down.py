"""``skate down``: stops the nodes of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import config_of, confirmed, parser, report_errors, warn
from skate.launcher import launch

SUMMARY = "stop the nodes of a cluster file; the machines stay"


def main(arguments: Sequence[str]) -> int:
    """Stop the nodes and return 0; 1 if one has not stopped."""
    made = parser("down", SUMMARY)
    made.add_argument("-y", "--yes", action="store_true", help="do not ask")
    made.add_argument("--workers-only", action="store_true", help="leave the head as it is")
    made.add_argument(
        "--keep-min-workers",
        action="store_true",
        help="leave the first min_workers workers, and the head, as they are",
    )
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        with_head = not (given.workers_only or given.keep_min_workers)
        workers = config.workers[config.min_workers :] if given.keep_min_workers else config.workers
        what = f"{len(workers)} workers" + (f" and the head {config.head}" if with_head else "")
        if not confirmed(f"Stop {what} of {config.name!r}, with everything that runs there?", given.yes):
            return 1
        failed = launch.down(config, workers, with_head, launch.print_line)
        warn(failed, "has not stopped")
        print(
            f"Cluster {config.name!r}: {len(workers) + with_head - len(failed)} of {len(workers) + with_head} nodes are stopped."
        )
        return 1 if failed else 0

    return report_errors("down", act)
