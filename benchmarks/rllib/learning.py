"""Learning curves of Skate and Stable-Baselines3 with the same settings, over seeds; the work of hours, done in pieces.

    python -m benchmarks.rllib.learning [--only NAME] [--target skate|sb3] [--seeds 5] [--minutes 60]
                                        [--folder DIR] [--sb3 PYTHON] [--picture FILE] [--json FILE] [--show]
                                        [--markdown]

Run it again to continue: every training is kept in the folder and continues from its last piece. What is finished is kept in
the repository, in `benchmarks/rllib/finished/`, and is trained again only if the settings of its task have changed. The table
and the picture show what is finished.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.rllib.curves import Curve, draw, points_below
from benchmarks.rllib.finished import FOLDER, SIDES, Finished, table
from benchmarks.rllib.learning_run import state_of
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
    parser.add_argument(
        "--steps",
        type=int,
        default=None,
        help="of every task, to try it out; keeps nothing in the repository",
    )
    parser.add_argument("--show", action="store_true", help="train nothing; show what there is")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/rllib.md")
    return parser.parse_args()


def pieces(args: argparse.Namespace, names: list[str], finished: Finished) -> None:
    """Train until all is finished or the time is over, seed by seed and both sides in turn."""
    deadline = time.monotonic() + args.minutes * 60
    pythons = {"sb3": args.sb3, "skate": sys.executable}
    sides = [args.target] if args.target else [side for side in pythons if Path(pythons[side]).exists()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    for seed in range(1, args.seeds + 1):
        for name in names:
            for side in sides:
                if seed in finished.read(name)[side]:
                    continue
                folder, steps = args.folder / name / side / str(seed), args.steps or TASKS[name].steps
                while (state := state_of(folder, TASKS[name], side))["steps"] < steps:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return
                    command = [pythons[side], "-m", "benchmarks.rllib.learning_run", name, "--target", side]
                    command += ["--seed", str(seed), "--folder", str(folder)]
                    command += ["--seconds", str(min(left, PIECE_SECONDS))]
                    command += ["--steps", str(args.steps)] if args.steps else []
                    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
                    print(
                        name,
                        side,
                        seed,
                        state_of(folder, TASKS[name], side)["steps"],
                        file=sys.stderr,
                        flush=True,
                    )
                    if done.returncode:
                        print(f"{name} {side} {seed} failed, see above; the others continue", file=sys.stderr)
                        break
                else:
                    finished.add(name, side, seed, state["episodes"], steps, state["versions"])


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
    finished = Finished(args.folder / "finished" if args.steps else FOLDER)
    for name in names:
        if stale := finished.stale(name):
            print(f"{name}: {stale} trainings had other settings and are left out", file=sys.stderr)
    if not args.show:
        pieces(args, names, finished)
    if args.markdown:
        print(table(finished, names), end="")
    found = {name: curves for name in names if (curves := finished.curves(name))}
    for name, curves in found.items():
        report(name, curves)
    for name in sorted(set(names) - set(found)):
        print(f"{name}: no seed is finished on all sides yet; run this again to continue")
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
