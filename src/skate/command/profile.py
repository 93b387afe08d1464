"""``skate profile``: where the processes of a session spend their time, or their memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skate.command.session import add_options, run_in
from skate.util.profiling import CPU, MEMORY, WALL, flame_graph, take

SUMMARY = "show where workers and drivers spend CPU time, or hold memory; also as a flame graph"
HELP = """\
Looks at the stacks of workers and drivers for some seconds, and prints the lines at which they spent
most CPU time. With --output, writes a flame graph (FILE.svg), a file for https://speedscope.app
(FILE.json), or collapsed stacks (FILE.txt). A thread inside each process does the looking, so this
needs no privileges. Name processes by their ids, as `skate list workers` shows them; by default all
are profiled."""
FORMATS = (".svg", ".json", ".txt")


def main(arguments: Sequence[str]) -> int:
    """Take the profile and return 0; 1 if there is no session, or if no process has answered."""
    parser = argparse.ArgumentParser(
        prog="skate profile", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pids", nargs="*", type=int, metavar="PID")
    parser.add_argument("--seconds", "-d", type=float, default=5.0, help="how long; default: 5")
    parser.add_argument("--rate", "-r", type=float, default=100.0, help="looks per second; default: 100")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--wall", action="store_true", help="count time that passes, also in threads that wait")
    kind.add_argument("--memory", action="store_true", help="count memory allocated meanwhile and still held")
    parser.add_argument("--output", "-o", metavar="FILE", help=f"a file that ends in {', '.join(FORMATS)}")
    add_options(parser, pid=False)
    given = parser.parse_args(list(arguments))
    if given.output and not given.output.endswith(FORMATS):
        parser.error(f"--output must end in {', '.join(FORMATS)}, got {given.output!r}")
    status = 0

    def act(_: str | None) -> None:
        nonlocal status
        status = _profile(given)

    return run_in(given, act) or status


def _profile(given: argparse.Namespace) -> int:
    mode = MEMORY if given.memory else WALL if given.wall else CPU
    profiles, missing = take(given.seconds, given.rate, mode, given.pids)
    for line in missing:
        print(f"skate profile: {line}", file=sys.stderr)
    absent = set(given.pids) - {each.pid for each in profiles}
    if given.pids and absent and not missing:
        print(f"skate profile: no process of the session has the id {min(absent)}", file=sys.stderr)
    if not profiles:
        return 1
    if given.output is None:
        for each in profiles:
            spent = sum(weight for _, weight in each.samples.stacks)
            print(f"{each.title}: {flame_graph.amount(spent, mode)} in {each.samples.seconds:.1f} s")
        print(flame_graph.table(profiles, mode))
        return 0
    text = (
        flame_graph.svg(profiles, mode)
        if given.output.endswith(".svg")
        else flame_graph.speedscope(profiles, mode)
        if given.output.endswith(".json")
        else flame_graph.collapsed(profiles)
    )
    with open(given.output, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"The profile is in {given.output}.")
    return 0
