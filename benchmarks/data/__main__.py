"""Datasets on Skate, on Ray and as bare tables, in turn, whole processes, medians of all rounds.

    python -m benchmarks.data [--only NAME] [--target skate|ray|arrow] [--rounds 3] [--ray PYTHON] [--full] [--json OUT.json]

The files that scenarios read are written once, before anything is measured. `arrow` is what a program would write with pyarrow
(or NumPy) and nothing else, in one process on the same cores.
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
                    full = ["--full"] if args.full else []
                    where = ["--target", target, "--files", str(scratch / "files")]
                    runner.run(target, "benchmarks.data.scenarios", name, *where, *full)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def print_table(record: Record) -> None:
    """Milliseconds by figure and target, and how many times the others take."""
    found = {target: record.medians(target) for target in TARGETS}
    keys = list(dict.fromkeys(key for medians in found.values() for key in medians))
    print(f"{'figure':<28}{'arrow':>10}{'skate':>10}{'ray':>10}{'/ arrow':>9}{'x ray':>8}  reach")
    for key in keys:
        arrow, skate, ray = (found[target].get(key) for target in TARGETS)
        cells = "".join(f"{'' if value is None else f'{value:.1f}':>10}" for value in (arrow, skate, ray))
        beside = f"{skate / arrow:.1f}" if skate and arrow else ""
        times = f"{ray / skate:.0f}" if skate and ray else ""
        print(f"{key:<28}{cells}{beside:>9}{times:>8}  {REACH.get(key, '')}")


def main() -> None:
    args = parse()
    record = measure(args)
    print_table(record)
    for target, notes in record.notes.items():
        for key, note in notes.items():
            print(f"{target}, {key}: {note}")
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
