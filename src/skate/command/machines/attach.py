"""``skate attach``: opens a shell on a machine of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import add_session, config_of, parser, report_errors, start_if_down
from skate.launcher import launch

SUMMARY = "open a shell on the head of a cluster file, or on another of its machines"


def main(arguments: Sequence[str]) -> int:
    """Open the shell and return its exit code; 1 if the machine cannot be reached, which stderr reports."""
    made = parser("attach", SUMMARY)
    made.add_argument("-N", "--new", action="store_true", help="open a new session of screen or tmux")
    made.add_argument("--node-ip", metavar="IP", help="a worker; default: the head")
    add_session(made)
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        if given.screen and given.tmux:
            raise ValueError("--screen and --tmux exclude each other")
        if given.start:
            start_if_down(config)
        line = None
        if given.screen:
            line = "screen" if given.new else "screen -xRR"
        elif given.tmux:
            line = "tmux new-session" if given.new else "tmux new-session -A -s skate"
        machine = launch.machine_at(config, given.node_ip)
        return launch.attach(machine, line, given.port_forward)

    return report_errors("attach", act)
