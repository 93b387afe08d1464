"""``skate submit``: copies a program to the head of a cluster file, and runs it there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from skate.command.machines.options import (
    add_session,
    config_of,
    parser,
    report_errors,
    run_on_head,
    start_if_down,
    words_after,
)
from skate.launcher import launch

SUMMARY = "copy a program to the head of a cluster file, and run it there"


def main(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code; 1 if the head cannot be reached, which stderr reports."""
    made = parser("submit", SUMMARY)
    made.add_argument("script", metavar="SCRIPT", help="is copied to the home folder of the head")
    made.add_argument(
        "script_args", nargs="*", metavar="ARGS", help="for the program; put those with a dash after --"
    )
    made.add_argument("--args", default="", help="arguments for the program as one string")
    made.add_argument("--stop", action="store_true", help="stop the cluster after the program")
    made.add_argument("--extra-screen-args", default="", metavar="ARGS", help="options for screen")
    add_session(made)
    own, rest = words_after(arguments)
    given = made.parse_intermixed_args(own)

    def act() -> int:
        config = config_of(given)
        if not os.path.isfile(given.script):
            raise ValueError(f"there is no program {given.script}")
        if given.start:
            start_if_down(config)
        name = os.path.basename(given.script)
        launch.head_of(config).copy(given.script, name)
        words = [*shlex.split(given.args), *given.script_args, *rest]
        command = f'skate run "$HOME"/{shlex.quote(name)} {shlex.join(words)}'.rstrip()
        return run_on_head(config, command, given, given.stop)

    return report_errors("submit", act)
