"""The CPU cost of the core as a cluster grows: `python -m skate.simulation --scale`.

`docs/scale.md` describes what is measured. No sockets, processes or user code take part, so the figures cover decisions alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from pathlib import Path

from skate.simulation.scale.chart import draw
from skate.simulation.scale.costs import FIGURES, flood, queued, weights

NODES = (10, 100, 1_000, 10_000)
TASKS = 1_000_000
FLOODED = ("a flood, each to come", "a flood, each to go")
PAGE = "scale.md"  # in the folder of the documents, with the chart beside it
CHART = "scale.svg"


def table(figures: dict[str, list[float]], sizes: list[int]) -> str:
    """The figures as a table of Markdown."""
    lines = [f"| µs | {' | '.join(f'{size:,} nodes' for size in sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    for name, row in figures.items():
        lines.append(f"| {name} | {' | '.join(f'{value:,.1f}' for value in row)} |")
    return "\n".join(lines)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        prog="python -m skate.simulation --scale", description="What the core costs."
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODES), metavar="N")
    parser.add_argument("--tasks", type=int, default=TASKS, metavar="N", help="of all floods together")
    parser.add_argument("--only", default="", metavar="WORD", help="figures with this word in their name")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures")
    parser.add_argument("--before", type=Path, metavar="IN", help="earlier figures, to be drawn beside")
    parser.add_argument(
        "--docs", type=Path, metavar="DIR", help=f"put the tables into DIR/{PAGE}, and the chart beside it"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and draw the figures."""
    options = parsed(arguments)
    figures: dict[str, list[float]] = {}
    for name, measure in FIGURES.items():
        if options.only in name:
            figures[name] = [measure(nodes) for nodes in options.nodes]
            print(name, *(f"{value:,.1f}" for value in figures[name]), flush=True)
    others: dict[str, float] = {}
    if options.tasks and not options.only:
        floods = [flood(nodes, options.tasks // len(options.nodes)) for nodes in options.nodes]
        for name, row in zip(FLOODED, zip(*floods, strict=True), strict=True):
            figures[name] = list(row)
        others = {**queued(options.tasks), **weights()}
    first = table(figures, options.nodes)
    second = "\n".join(
        ["| | |", "|---|---|", *(f"| {name} | {value:,.1f} |" for name, value in others.items())]
    )
    print("", first, "", second, sep="\n")
    if options.json:
        options.json.write_text(json.dumps({"nodes": options.nodes, "figures": figures}, indent=1) + "\n")
    if options.docs:
        before = json.loads(options.before.read_text())["figures"] if options.before else {}
        chart = draw("CPU time of the core's decisions, µs", options.nodes, figures, before)
        (options.docs / CHART).write_text(chart)
        python = f"Python {platform.python_version()}, {platform.machine()}"
        put_in(options.docs / PAGE, f"{first}\n\n{second}\n\nMeasured with {python}.")
    return 0


def put_in(page: Path, text: str) -> None:
    """Put the tables between the two marks of a page."""
    before = page.read_text()
    after, count = re.subn(
        r"(<!-- figures -->\n).*(\n<!-- end -->)",
        lambda marks: marks[1] + text + marks[2],
        before,
        flags=re.S,
    )
    if not count:
        raise SystemExit(
            f"{page} has no place for the figures: a line <!-- figures --> and a line <!-- end -->"
        )
    page.write_text(after)
