"""``skate drain-node``: lets a node take no new work, and leave when it is idle or at a deadline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skate.client.session import session
from skate.command.session import ADDRESS_HELP, joined

SUMMARY = "let a node take no new work, and leave the cluster when what runs there has ended"
REASONS = ("DRAIN_NODE_REASON_IDLE_TERMINATION", "DRAIN_NODE_REASON_PREEMPTION")


def main(arguments: Sequence[str]) -> int:
    """Ask the head to drain a node. Return 0 if it accepts, 1 if it rejects or there is no session."""
    parser = argparse.ArgumentParser(prog="skate drain-node", description=SUMMARY)
    parser.add_argument("--address", help=ADDRESS_HELP)
    parser.add_argument("--node-id", metavar="HEX", help="the node; by default the one of this machine")
    parser.add_argument("--reason", required=True, choices=REASONS,
                        help="an idle termination is rejected if the node is not idle")  # fmt: skip
    parser.add_argument(
        "--reason-message", default="", help="the reason in words, for `skate status` and errors"
    )
    parser.add_argument("--deadline-remaining-seconds", type=int, metavar="SECONDS",
                        help="the node leaves after this time whatever runs there; by default it waits")  # fmt: skip
    given = parser.parse_args(list(arguments))
    seconds = given.deadline_remaining_seconds
    if seconds is not None and seconds < 0:
        parser.error(f"--deadline-remaining-seconds cannot be negative, got {seconds}")
    try:
        wanted = None if given.node_id is None else bytes.fromhex(given.node_id)
        if wanted is not None and len(wanted) != 28:
            raise ValueError
    except ValueError:
        parser.error(f"--node-id must be 56 hexadecimal digits, got {given.node_id!r}")
    try:
        with joined(given.address):
            process = session.current()
            node_id = process.node_id if wanted is None else wanted
            left = -1 if seconds is None else seconds
            accepted, why = process.request("drain_node", node_id, given.reason, given.reason_message, left)
    except (ConnectionError, ValueError, RuntimeError) as error:
        print(f"skate: {error}", file=sys.stderr)
        return 1
    if not accepted:
        print(f"The drain request is not accepted: {why}", file=sys.stderr)
        return 1
    print(f"Node {node_id.hex()} is draining; `skate status` shows it.")
    return 0
