"""``skate autoscale``: starts and stops the workers of a cluster file as demand changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from skate.autoscaler.demand import Limits
from skate.autoscaler.machines import SshMachines
from skate.command.machines.options import config_of, parser, report_errors
from skate.command.session import ADDRESS_HELP, joined
from skate.launcher import token
from skate.launcher.launch import print_line

SUMMARY = "start and stop the workers of a cluster file as demand changes, until Ctrl-C"


def main(arguments: Sequence[str]) -> int:
    """Adapt the cluster until SIGINT or SIGTERM, and return 0; 1 if there is no cluster, or it ends."""
    made = parser("autoscale", SUMMARY)
    made.add_argument("--address", help=f"{ADDRESS_HELP}; without one, the head of the file")
    made.add_argument("--min-workers", type=int, metavar="N", help="replaces min_workers of the file")
    made.add_argument("--max-workers", type=int, metavar="N", help="replaces max_workers of the file")
    made.add_argument(
        "--idle-timeout-minutes", type=float, metavar="M", help="replaces idle_timeout_minutes of the file"
    )
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        try:
            from skate.autoscaler.adaptive import (  # imports Dask, which the extra `cluster` brings
                Autoscaler,
                run_until_signal,
            )
        except ImportError as error:
            raise ValueError(f"the autoscaler needs Dask ({error}): pip install 'skate[cluster]'") from None
        idle_s = (
            config.idle_timeout_s if given.idle_timeout_minutes is None else 60.0 * given.idle_timeout_minutes
        )
        limits = Limits(config.min_workers, config.max_workers, idle_s)
        if os.path.exists(token.local_path(config.name)):
            os.environ.setdefault("SKATE_AUTH_TOKEN_PATH", token.local_path(config.name))
        with joined(given.address or f"{config.head_login}:{config.port}"):
            print_line(
                f"Cluster {config.name!r} has {limits.min_workers} to {limits.max_workers} workers, as demand changes."
            )
            asyncio.run(run_until_signal(Autoscaler(SshMachines(config), limits, print_line)))
        return 0

    return report_errors("autoscale", act)
