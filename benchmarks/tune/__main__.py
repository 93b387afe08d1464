"""Searches on Skate, on Ray Tune and without either, in turn, whole processes, medians of all rounds.

    python -m benchmarks.tune [--only NAME] [--target skate|ray|bare] [--rounds 3] [--ray PYTHON] [--json OUT.json]

`trials_1000` and `trials_1000_reused` take Ray many minutes, and are left out there without `--full`.
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
from benchmarks.run import ROOT, Record, Runner
from benchmarks.tune.scenarios import OURS, REACH, SCENARIOS

TARGETS = ("bare", "skate", "ray")
#: What takes Ray many minutes.
LONG = ("trials_1000", "trials_1000_reused")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure searches beside Ray Tune, and beside a pool of processes."
    )
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name holds NAME")
    parser.add_argument("--target", choices=TARGETS, help="one side alone; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", metavar="PYTHON", default=str(ROOT / ".venv-ray" / "bin" / "python"))
    parser.add_argument("--full", action="store_true", help="also what takes Ray many minutes")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> Record:
    """All rounds: each scenario on one side and at once on the others."""
    record = Record()
    pythons = {"bare": sys.executable, "skate": sys.executable}
    if Path(args.ray).exists():
        pythons["ray"] = args.ray
    if args.target:
        pythons = {args.target: pythons[args.target]}
    names = [name for name in (*SCENARIOS, *OURS) if args.only in name]
    if not names:
        sys.exit(f"--only {args.only}: no scenario has that in its name; there are {', '.join(SCENARIOS)}")
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(pythons, scratch, args.full, record)
    processes.adopt_orphans()
    try:
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for name in names:
                for target in pythons:
                    if target == "ray" and (name in OURS or (name in LONG and not args.full)):
                        continue
                    runner.run(target, "benchmarks.tune.scenarios", name, "--target", target)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def print_table(record: Record) -> None:
    """Milliseconds by figure and target, and how many times Ray takes."""
    found = {target: record.medians(target) for target in TARGETS}
    keys = list(dict.fromkeys(key for medians in found.values() for key in medians))
    print(f"{'figure':<28}{'bare':>10}{'skate':>10}{'ray':>12}{'x ray':>8}  reach")
    for key in keys:
        alone, skate, ray = (found[target].get(key) for target in TARGETS)
        cells = "".join(
            f"{'' if v is None else f'{v:.1f}':>{w}}" for v, w in ((alone, 10), (skate, 10), (ray, 12))
        )
        times = f"{ray / skate:.0f}" if skate and ray else ""
        print(f"{key:<28}{cells}{times:>8}  {REACH.get(key, '')}")


def main() -> None:
    args = parse()
    record = measure(args)
    print_table(record)
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
