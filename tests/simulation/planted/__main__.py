"""How each planted bug is noticed: python -m tests.simulation.planted [--seeds N] [--hits N] [--markdown] [words of a name]"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.simulation.planted import FAMILIES, RUNS, SEEDS_LONG
from tests.simulation.planted.bug import NOTICED, Bug, applies, planted
from tests.simulation.planted.reach import passing

NOTICERS = {
    "observer": "the observer", "accounts": "the accounting of grants", "quiescence": "the check of waiters in an idle cluster",
    "between_nodes": "the agreement of the nodes",
    "arena": "the allocator", "gone": "the check for leftovers at the end", "drain": "a caller without an answer",
    "reconcile": "the grants at the end", "record": "a run without end",
    "process": "a process notified twice, or not at all", "worker": "a worker notified wrongly",
    "runs": "a failure where nothing broke", "finish": "the end of a run of lanes", "net": "the causal past of each member",
    "run_borrowed": "a borrowed value that is lost",
}  # fmt: skip


def noticer(error: Exception) -> str:
    """Which part has noticed, from where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    file = last.filename.rsplit("/", 1)[-1].removesuffix(".py")
    if last.name in NOTICERS:
        return NOTICERS[last.name]
    if file in NOTICERS:
        return NOTICERS[file]
    core = any(frame.name == "check" or frame.name.startswith("check_") for frame in frames)
    return f"the core's own check (`{file}`)" if core else f"`{file}`, {last.name}"


class Finding:
    """How one bug was noticed in one kind of run."""

    def __init__(self, bug: Bug, kind: str, seeds: list[int], hits_wanted: int) -> None:
        self.bug, self.kind = bug, kind
        self.first, self.hits, self.tried, self.how, self.who = -1, 0, 0, "", ""
        began = time.process_time()
        with planted(bug):
            for seed in seeds:
                self.tried += 1
                try:
                    RUNS[kind](seed)
                except NOTICED as error:
                    self.hits += 1
                    if self.first < 0:
                        self.first, self.who = seed, noticer(error)
                        self.how = f"{type(error).__name__}: {error}"
                    if self.hits == hits_wanted:
                        break
        self.seconds = time.process_time() - began

    def __str__(self) -> str:
        counts = f"{self.hits} of {self.tried} that come by"
        return f"{self.bug} | {self.kind} | {self.first} | {counts} | {self.who} | {self.how[:90]} | {self.seconds:.1f}s"


HEADER = """# Planted bugs

A test that has never failed may check nothing. So known kinds of bugs are planted into the core, the client and the worker,
one at a time and in memory only, and the simulator has to detect each within its seeds; without them the same seeds pass.
`tests/simulation/test_planted.py` does this for bugs that a few seeds detect, `python -m tests.simulation.planted` for all.
The table shows the first check that detected each bug when this page was generated with `python -m tests.simulation.planted
--markdown`. "Many seeds" marks bugs that few seeds detect."""
COLUMNS = "| planted | in | run | noticed by |\n|---|---|---|---|"


def row(finding: Finding) -> str:
    """A line of the page."""
    bug = finding.bug
    who = finding.who or f"nothing in {finding.tried} seeds"
    where = bug.where.removeprefix("skate.core.").removeprefix("skate.").replace(":", ", ")
    return f"| {bug} | `{where}` | {finding.kind}{', many seeds' if bug.rare else ''} | {who} |"


def arguments_of(words: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_LONG)
    parser.add_argument(
        "--hits", type=int, default=1, help="stop with a bug after so many seeds that notice it (1)"
    )
    parser.add_argument("--markdown", action="store_true", help="print docs/planted_bugs.md")
    parser.add_argument("--rare", action="store_true", help="only what few seeds notice")
    parser.add_argument("--family", default="", help="only one: actors, nodes, ...")
    parser.add_argument("words", nargs="*", help="of the name of a bug")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """The exit code: 1 if a bug survives."""
    options = arguments_of(words)
    name = " ".join(options.words)
    families = [family for family in FAMILIES if family.__name__.endswith(options.family)]
    bugs = [
        bug for family in families for bug in family.BUGS if name in bug.name and bug.rare >= options.rare
    ]
    passed = passing(bugs, range(options.seeds))
    survived = 0
    if options.markdown:
        print(HEADER)
    for family in families:
        if options.markdown:
            print(f"\n{(family.__doc__ or '').strip()}\n\n{COLUMNS}")
        for bug in (bug for bug in family.BUGS if bug in bugs):
            if not applies(bug):
                survived += 1
                print(f"{bug} | the code has changed: write the bug anew", flush=True)
                continue
            for kind in bug.runs:
                finding = Finding(bug, kind, passed[kind].get(bug.name, []), options.hits)
                survived += not finding.hits
                print(row(finding) if options.markdown else finding, flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
