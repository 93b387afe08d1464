"""``skate health-check``: asks the node if it answers, for probes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skate.client.session import detached_node
from skate.command.session import ADDRESS_HELP

SUMMARY = "exit with 0 if the node answers, else with 1"
#: Components of Ray that a probe may ask for, and that are part of the node.
COMPONENTS = ("ray_client_server",)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if the node answers, else 1."""
    parser = argparse.ArgumentParser(prog="skate health-check", description=SUMMARY)
    parser.add_argument("--address", help=ADDRESS_HELP)
    parser.add_argument("--temp-dir", help="folder of the node's socket, as given to `skate start`")
    parser.add_argument("--component", help=argparse.SUPPRESS)
    parser.add_argument("--skip-version-check", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(list(arguments))
    try:
        detached_node.status(detached_node.locate(given.address, detached_node.folder_of(given.temp_dir)))
    except OSError as error:
        print(f"skate health-check: {error}", file=sys.stderr)
        return 1
    if given.component not in (None, *COMPONENTS):
        print(f"skate health-check: there is no component {given.component!r}", file=sys.stderr)
        return 1
    return 0
