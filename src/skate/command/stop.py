"""``skate stop``: ends the node that `skate start` has started."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skate.client.session import detached_node
from skate.command.session import add_ray_logging

SUMMARY = "end the node started by `skate start`, with everything that runs on it"
GRACE_SECONDS = 16.0


def main(arguments: Sequence[str]) -> int:
    """End the node and return 0, even if there was none; 1 if the folder is not accessible."""
    parser = argparse.ArgumentParser(prog="skate stop", description=SUMMARY)
    parser.add_argument("-f", "--force", action="store_true", help="kill the node immediately")
    parser.add_argument("-g", "--grace-period", type=float, default=GRACE_SECONDS, metavar="SECONDS",
                        help="seconds to wait before the node is killed; default: %(default)g")  # fmt: skip
    parser.add_argument("--temp-dir", help="folder of the node's socket, as given to `skate start`")
    add_ray_logging(parser)
    given = parser.parse_args(list(arguments))
    folder = detached_node.folder_of(given.temp_dir)
    try:
        found = detached_node.stop(folder, given.grace_period, given.force)
    except OSError as error:
        print(f"skate stop: {error}", file=sys.stderr)
        return 1
    if found.pid is None and not found.removed:
        print(f"There is nothing to stop: you have no running node (looked in {folder}).")
    elif found.pid is not None:
        how = "killed" if found.killed else "stopped"
        print(f"The node (pid {found.pid}) is {how}, and everything that ran on it has ended.")
    if found.removed:
        print(f"Removed files left behind by a dead node: {', '.join(found.removed)}.")
    return 0
