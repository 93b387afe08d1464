"""Learning curves of Skate and Stable-Baselines3 with the same settings, over seeds; the work of hours, done in pieces.

    python -m benchmarks.rllib.learning [--only NAME] [--target skate|sb3] [--seeds 5] [--minutes 60]
                                        [--folder DIR] [--sb3 PYTHON] [--picture FILE] [--json FILE] [--show]

Run it again to continue: every training is kept in the folder and continues from its last piece. The table and the picture
show the trainings that are complete.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.rllib.curves import Curve, curve_of, draw, points_below, scores
from benchmarks.rllib.learning_run import SIDES, state_of
from benchmarks.rllib.learning_tasks import TASKS
from benchmarks.run import ROOT

PIECE_SECONDS = 120.0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare learning curves with Stable-Baselines3's.")
    parser.add_argument("--only", default="", metavar="NAME", help="tasks whose name holds NAME")
    parser.add_argument("--target", choices=SIDES, help="one side alone; default: both")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to train now; default: 60")
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "results" / "learning")
    parser.add_argument("--sb3", metavar="PYTHON", default=str(ROOT / ".venv-sb3" / "bin" / "python"))
    parser.add_argument("--picture", type=Path, metavar="FILE", help="an SVG or PNG of all complete curves")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--steps", type=int, default=None, help="of every task, to try it out")
    parser.add_argument("--show", action="store_true", help="train nothing; show what there is")
    return parser.parse_args()


def pieces(args: argparse.Namespace, names: list[str]) -> None:
    """Train until all is complete or the time is over, seed by seed and both sides in turn."""
    deadline = time.monotonic() + args.minutes * 60
    pythons = {"sb3": args.sb3, "skate": sys.executable}
    sides = [args.target] if args.target else [side for side in pythons if Path(pythons[side]).exists()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    for seed in range(1, args.seeds + 1):
        for name in names:
            for side in sides:
                folder = args.folder / name / side / str(seed)
                while state_of(folder)["steps"] < (args.steps or TASKS[name].steps):
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return
                    command = [pythons[side], "-m", "benchmarks.rllib.learning_run", name, "--target", side]
                    command += ["--seed", str(seed), "--folder", str(folder)]
                    command += ["--seconds", str(min(left, PIECE_SECONDS))]
                    command += ["--steps", str(args.steps)] if args.steps else []
                    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
                    print(name, side, seed, state_of(folder)["steps"], file=sys.stderr, flush=True)
                    if done.returncode:
                        print(f"{name} {side} {seed} failed, see above; the others continue", file=sys.stderr)
                        break


def complete(folder: Path, name: str, seeds: int, steps: int) -> dict[str, Curve]:
    """Return the curve of each side, over the seeds whose training is complete on every side that has any."""
    states = {
        side: {seed: state_of(folder / name / side / str(seed)) for seed in range(1, seeds + 1)}
        for side in SIDES
    }
    ended = {
        side: {seed for seed, state in found.items() if state["steps"] >= steps}
        for side, found in states.items()
    }
    ended = {side: found for side, found in ended.items() if found}
    if not ended:
        return {}
    both = sorted(set.intersection(*ended.values()))
    if not both:
        return {}
    return {
        side: curve_of(np.array([scores(states[side][seed]["episodes"], steps) for seed in both]))
        for side in ended
    }


def report(name: str, curves: dict[str, Curve]) -> None:
    """Print the curve of each side, and where ours is below."""
    for side, curve in curves.items():
        cells = "".join(f"{value:>9.1f}" for value in curve.mean)
        area, low, high = curve.area
        print(f"{name:<16}{side:<7}{curve.seeds:>2}{cells} | {area:.1f} ({low:.1f} to {high:.1f})")
    if len(curves) == 2:
        below = points_below(curves["skate"], curves["sb3"])
        verdict = f"below SB3's interval at {below}" if below else "not below SB3's interval anywhere"
        print(f"{'':<16}{verdict}")


def main() -> None:
    args = parse()
    names = [name for name in TASKS if args.only in name]
    if not names:
        sys.exit(f"--only {args.only}: no task has that in its name; there are {', '.join(TASKS)}")
    if not args.show:
        pieces(args, names)
    found = {name: complete(args.folder, name, args.seeds, args.steps or TASKS[name].steps) for name in names}
    found = {name: curves for name, curves in found.items() if curves}
    for name, curves in found.items():
        report(name, curves)
    for name in set(names) - set(found):
        print(f"{name}: no seed is complete on all sides yet; run this again to continue")
    if args.picture and found:
        draw(
            {name: (args.steps or TASKS[name].steps, curves) for name, curves in found.items()}, args.picture
        )
    if args.json:
        figures = {
            name: {
                side: {
                    "seeds": curve.seeds,
                    "iqm": curve.mean.tolist(),
                    "low": curve.low.tolist(),
                    "high": curve.high.tolist(),
                    "area": curve.area,
                }
                for side, curve in curves.items()
            }
            for name, curves in found.items()
        }
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
