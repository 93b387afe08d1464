"""Reinforcement learning on a bare loop, Stable-Baselines3, Ray RLlib and Skate, in turn, whole processes, medians of all rounds.

    python -m benchmarks.rllib [--only NAME] [--target bare|sb3|ray|skate] [--rounds 3] [--seconds 8]
                               [--ray PYTHON] [--sb3 PYTHON] [--tiny] [--json OUT.json]

A target whose interpreter is not installed is left out.
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
from benchmarks.rllib.scenarios import ALL, LESS_IS_BETTER, REACH, SETTINGS, TARGETS
from benchmarks.run import ROOT, Record, Runner


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure RLlib beside Ray, Stable-Baselines3 and a bare loop."
    )
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name holds NAME")
    parser.add_argument("--target", choices=ALL, help="one side alone; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each rate; default: 8")
    parser.add_argument("--ray", metavar="PYTHON", default=str(ROOT / ".venv-ray" / "bin" / "python"))
    parser.add_argument("--sb3", metavar="PYTHON", default=str(ROOT / ".venv-sb3" / "bin" / "python"))
    parser.add_argument("--tiny", action="store_true", help="show only that every scenario runs")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def interpreters(args: argparse.Namespace) -> dict[str, str]:
    """Return the interpreter of each target that is installed."""
    chosen = {"bare": sys.executable, "sb3": args.sb3, "ray": args.ray, "skate": sys.executable}
    found = {target: path for target, path in chosen.items() if Path(path).exists()}
    if args.target:
        if args.target not in found:
            sys.exit(
                f"--target {args.target}: {chosen[args.target]} does not exist; `make bench-rllib` makes it"
            )
        return {args.target: found[args.target]}
    for target in chosen.keys() - found.keys():
        print(f"{target} is left out: {chosen[target]} does not exist", file=sys.stderr)
    return found


def measure(args: argparse.Namespace) -> Record:
    """All rounds: each scenario on one side and at once on the others."""
    record = Record()
    pythons = interpreters(args)
    names = [name for name in SETTINGS if args.only in name]
    if not names:
        sys.exit(f"--only {args.only}: no scenario has that in its name; there are {', '.join(SETTINGS)}")
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(pythons, scratch, False, record)
    processes.adopt_orphans()
    # Networks of control tasks are too small for more; threads that wait for each other would slow every target.
    os.environ["OMP_NUM_THREADS"] = "1"
    more = ["--seconds", str(args.seconds), *(["--tiny"] if args.tiny else [])]
    try:
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for name in names:
                for target in TARGETS[name]:
                    if target in pythons:
                        runner.run(target, "benchmarks.rllib.scenarios", name, "--target", target, *more)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def print_table(record: Record) -> None:
    """Figures by target, and how many times better Skate is than each of the others."""
    found = {target: record.medians(target) for target in ALL}
    keys = list(dict.fromkeys(key for target in reversed(ALL) for key in found[target]))
    head = "".join(f"{target:>10}" for target in ALL)
    print(f"{'figure':<18}{head}{'/ bare':>8}{'/ sb3':>8}{'/ ray':>8}  reach")
    for key in keys:
        values = [found[target].get(key) for target in ALL]
        cells = "".join(f"{'' if value is None else f'{value:,.4g}':>10}" for value in values)
        ours = values[-1]
        times = [
            (
                ""
                if not ours or not other
                else f"{other / ours if key in LESS_IS_BETTER else ours / other:.2f}"
            )
            for other in values[:-1]
        ]
        print(f"{key:<18}{cells}{''.join(f'{each:>8}' for each in times)}  {REACH.get(key, '')}")


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
