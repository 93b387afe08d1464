"""``skate exec``: runs a shell command on the head of a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from skate.command.machines.options import (
    add_session,
    config_of,
    parser,
    report_errors,
    run_on_head,
    start_if_down,
)

SUMMARY = "run a shell command on the head of a cluster file"


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code; 1 if the head cannot be reached, which stderr reports."""
    made = parser("exec", SUMMARY)
    made.add_argument("cmd", metavar="COMMAND", help="one word for the shell: quote it")
    made.add_argument(
        "--run-env", choices=("auto", "host", "docker"), default="auto", help="host is the only environment"
    )
    made.add_argument("--stop", action="store_true", help="stop the cluster after the command")
    add_session(made)
    given = made.parse_args(list(arguments))

    def act() -> int:
        if given.run_env == "docker":
            raise ValueError("--run-env docker: nodes run on the machines themselves; leave it out")
        config = config_of(given)
        if given.start:
            start_if_down(config)
        return run_on_head(config, given.cmd, given, given.stop)

    return report_errors("exec", act)
