"""Training on Skate, on Ray and under torchrun, in turn, whole processes, medians of all rounds.

python -m benchmarks.train [--only NAME] [--target skate|ray|torchrun] [--rounds 3] [--ray PYTHON] [--json OUT.json]
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
from benchmarks.train.scenarios import BARE, REACH, SCENARIOS

TARGETS = ("torchrun", "skate", "ray")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure training beside Ray Train and bare torchrun.")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name holds NAME")
    parser.add_argument("--target", choices=TARGETS, help="one side alone; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", metavar="PYTHON", default=str(ROOT / ".venv-ray" / "bin" / "python"))
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> Record:
    """All rounds: each scenario on one side and at once on the others."""
    record = Record()
    pythons = {"torchrun": sys.executable, "skate": sys.executable}
    if Path(args.ray).exists():
        pythons["ray"] = args.ray
    if args.target:
        pythons = {args.target: pythons[args.target]}
    names = [name for name in SCENARIOS if args.only in name]
    if not names:
        sys.exit(f"--only {args.only}: no scenario has that in its name; there are {', '.join(SCENARIOS)}")
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(pythons, scratch, False, record)
    processes.adopt_orphans()
    try:
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for name in names:
                for target in pythons:
                    if target != "torchrun" or name in BARE:
                        runner.run(target, "benchmarks.train.scenarios", name, "--target", target)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def print_table(record: Record) -> None:
    """Figures by target, and beside the others."""
    found = {target: record.medians(target) for target in TARGETS}
    keys = list(dict.fromkeys(key for target in ("skate", "ray", "torchrun") for key in found[target]))
    print(f"{'figure':<20}{'torchrun':>11}{'skate':>11}{'ray':>11}{'/ torchrun':>12}{'/ ray':>9}  reach")
    for key in keys:
        bare, skate, ray = (found[target].get(key) for target in TARGETS)
        cells = "".join(f"{'' if value is None else f'{value:.1f}':>11}" for value in (bare, skate, ray))
        shares = [f"{skate / other:.2g}" if skate and other else "" for other in (bare, ray)]
        print(f"{key:<20}{cells}{shares[0]:>12}{shares[1]:>9}  {REACH.get(key, '')}")


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
        args.json.write_text(json.dumps({"figures": spread, "failures": record.failures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
