"""Datasets on Skate, on Ray and as bare tables, in turn, whole processes, medians of all rounds.

    python -m benchmarks.data [--only NAME] [--target skate|ray|arrow] [--rounds 3] [--ray-rounds 1] [--ray PYTHON] [--full]
                              [--json OUT.json]

The files that scenarios read are written once, before anything is measured. `arrow` is what a program would write with pyarrow
(or NumPy) and nothing else, in one process on the same cores. Answers are compared: the table says where they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import processes
from benchmarks.data.scenarios import REACH, SCENARIOS, write_files
from benchmarks.run import ROOT, Record, Runner

TARGETS = ("arrow", "skate", "ray")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure datasets beside Ray Data and bare pyarrow.")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name holds NAME")
    parser.add_argument("--target", choices=TARGETS, help="one side alone; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray-rounds", type=int, default=3, help="Ray takes long; default: 3")
    parser.add_argument("--ray", metavar="PYTHON", default=str(ROOT / ".venv-ray" / "bin" / "python"))
    parser.add_argument("--full", action="store_true", help="also the sizes that take many minutes")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> Record:
    """All rounds: each scenario on one side and at once on the others."""
    record = Record()
    pythons = {"arrow": sys.executable, "skate": sys.executable}
    if Path(args.ray).exists():
        pythons["ray"] = args.ray
    if args.target:
        pythons = {args.target: pythons[args.target]}
    names = [name for name in SCENARIOS if args.only in name]
    if not names:
        sys.exit(f"--only {args.only}: no scenario has that in its name; there are {', '.join(SCENARIOS)}")
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(pythons, scratch, args.full, record)
    processes.adopt_orphans()
    try:
        write_files(scratch / "files", names)
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for name in names:
                for target in pythons:
                    if target == "ray" and number >= args.ray_rounds:
                        continue
                    full = ["--full"] if args.full else []
                    where = ["--target", target, "--files", str(scratch / "files")]
                    runner.run(target, "benchmarks.data.scenarios", name, *where, *full)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def print_table(record: Record) -> None:
    """Milliseconds by figure and target, how many times the others take, and the first run in a process."""
    found = {target: record.medians(target) for target in TARGETS}
    keys = list(dict.fromkeys(key for medians in found.values() for key in medians if "/" not in key))
    print(
        "| figure | Skate | Ray | bare | Ray / Skate | Skate / bare | reach | met? | first run: Skate | Ray | bare |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for key in keys:
        arrow, skate, ray = (found[target].get(key) for target in TARGETS)
        first = [found[target].get(f"{key}/first") for target in ("skate", "ray", "arrow")]
        times = None if skate is None or ray is None else ray / skate
        beside = None if skate is None or arrow is None else skate / arrow
        said, met = judged(key, skate, times, beside)
        cells = [key, *map(shown, (skate, ray, arrow, times, beside)), said, met, *map(shown, first)]
        print("| " + " | ".join(cells) + " |")


def shown(value: float | None) -> str:
    """A number with about three digits that matter."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def judged(key: str, ms: float | None, times: float | None, beside: float | None) -> tuple[str, str]:
    """Return the target of a figure, and the verdict, as far as it was measured."""
    reach = REACH.get(key)
    if reach is None:
        return "", ""
    asked = [
        (f"≤ {reach.ms:g} ms", reach.ms, None if ms is None else ms <= reach.ms),
        (f"≥ {reach.ray:g}x Ray", reach.ray, None if times is None else times >= reach.ray),
        (f"≤ {reach.bare:g}x bare", reach.bare, None if beside is None else beside <= reach.bare),
    ]
    asked = [each for each in asked if each[1]]
    measured = [met for *_, met in asked if met is not None]
    return ", ".join(text for text, *_ in asked), "" if not measured else "yes" if all(measured) else "no"


def compared(record: Record) -> list[str]:
    """A line for each figure whose answers are not the same on all targets."""
    lines = []
    keys = dict.fromkeys(key for notes in record.notes.values() for key in notes if key.startswith("answer "))
    for key in keys:
        answers = {target: notes[key] for target, notes in record.notes.items() if key in notes}
        if len(set(answers.values())) > 1:
            lines.append(f"answers differ: {key.removeprefix('answer ')}: {answers}")
    same = sum(sum(key in notes for notes in record.notes.values()) > 1 for key in keys) - len(lines)
    return [*lines, f"{same} answers are the same on all targets"]


def main() -> None:
    args = parse()
    record = measure(args)
    print_table(record)
    for target, notes in record.notes.items():
        for key, note in notes.items():
            if not key.startswith("answer "):
                print(f"{target}, {key}: {note}")
    print(*compared(record), sep="\n")
    for failure in record.failures:
        print(f"failed: {failure}")
    if args.json:
        spread = {
            target: {
                key: [min(values), statistics.median(values), max(values)] for key, values in figures.items()
            }
            for target, figures in record.values.items()
        }
        args.json.write_text(json.dumps({"ms": spread, "failures": record.failures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
