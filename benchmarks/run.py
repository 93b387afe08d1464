"""The one runner: limits, Skate and Ray in turn, medians of all rounds, one table.

    python benchmarks/run.py [--only NAME] [--target skate|ray] [--rounds 3] [--ray PYTHON] [--full]
                             [--json OUT.json] [--plot OUT.svg]

Every scenario runs in a process of its own, with a time limit. One that fails leaves its figures empty and
is named under the table; nothing timed ever makes the run itself fail.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# Started as a file, Python puts this folder on the path and not the one that holds the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plot, processes, report
from benchmarks.figures import FIGURES, LIMITS, Figure

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX, SECONDS_MAX_FULL = 180.0, 3600.0
GRACE_SECONDS = 5.0


@dataclass
class Record:
    """Everything one run has measured, by target ("limits", "skate", "ray") and figure, one value a round."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, target: str, answer: dict[str, Any]) -> None:
        for key, value in answer["figures"].items():
            if value is not None:
                self.values.setdefault(target, {}).setdefault(key, []).append(value)
        self.notes.setdefault(target, {}).update(answer["notes"])

    def medians(self, target: str) -> dict[str, float | None]:
        return {key: statistics.median(values) for key, values in self.values.get(target, {}).items()}


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts one scenario after another and leaves no process behind."""

    pythons: dict[str, str]
    scratch: Path
    full: bool
    record: Record

    def run(self, target: str, module: str, *arguments: str) -> None:
        """One process of one target; its figures, or why there are none, go to the record."""
        seconds_max = SECONDS_MAX_FULL if self.full else SECONDS_MAX
        begin = time.monotonic()
        process = subprocess.Popen(
            [self.pythons[target], "-m", module, *arguments],
            cwd=ROOT,
            env=self._environment(target),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=seconds_max)
            problem = f"ended with {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = "", ""
            problem = f"took over {seconds_max:.0f} s and was killed"
        name = " ".join([target, module.rpartition(".")[2], *arguments[:1]])
        lines = [line for line in out.splitlines() if line.startswith('{"figures"')]
        if lines and not problem:
            self.record.add(target, json.loads(lines[-1]))
        else:
            said = err.strip().splitlines()[-1:] or ["nothing on stderr"]
            self.record.failures.append(f"{name} {problem or 'printed no figures'}: {said[0][:300]}")
        self._leave_nothing(name)
        print(f"{name:<32} {time.monotonic() - begin:6.1f} s  {problem}", file=sys.stderr, flush=True)

    def _environment(self, target: str) -> dict[str, str]:
        mine = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "SKATE_"))}
        mine.pop("PYTHONPATH", None)
        if target == "ray":
            # A folder of its own: a cluster that runs on this machine is neither found nor disturbed.
            return mine | {"RAY_TMPDIR": str(self.scratch), "RAY_USAGE_STATS_ENABLED": "0"}
        return mine | {"PYTHONPATH": str(ROOT / "src")}

    def _leave_nothing(self, name: str) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        while processes.descendants(os.getpid()) and time.monotonic() < deadline:
            time.sleep(0.02)
        processes.reap()
        if killed := processes.end_below(os.getpid()):
            self.record.failures.append(f"{name} left {killed} processes, killed {GRACE_SECONDS:.0f} s later")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Skate, beside Ray and what the machine allows.")
    parser.add_argument("--only", metavar="NAME", help="figures or scenarios whose name holds NAME")
    parser.add_argument("--target", choices=("skate", "ray"), help="one side alone; default: both")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument(
        "--ray", metavar="PYTHON", help="an interpreter with Ray; default: .venv-ray/bin/python"
    )
    parser.add_argument("--full", action="store_true", help="also the sizes that take many minutes")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least one round is needed")
    return args


def interpreters(args: argparse.Namespace) -> dict[str, str]:
    """Which interpreter runs which side; a side that is not there is left out."""
    found = {"limits": sys.executable}
    if args.target != "ray":
        found["skate"] = sys.executable
    # Not resolved: the link in a virtual environment is what tells Python where its packages are.
    ray = Path(args.ray) if args.ray else ROOT / ".venv-ray" / "bin" / "python"
    if args.target != "skate":
        if ray.exists():
            found["ray"] = str(ray.absolute())
        elif args.ray or args.target == "ray":
            sys.exit(
                f"no interpreter at {ray}; `make bench-ray` builds .venv-ray, or name one with --ray PYTHON"
            )
    return found


def chosen(only: str | None) -> list[Figure]:
    figures = [f for f in FIGURES if not only or only in f.key or only in ".".join(f.scenario)]
    if not figures:
        names = sorted({".".join(figure.scenario) for figure in FIGURES})
        sys.exit(f"--only {only}: no figure or scenario has that in its name; scenarios: {', '.join(names)}")
    return figures


def measure(figures: list[Figure], args: argparse.Namespace, pythons: dict[str, str]) -> Record:
    """All rounds: limits first, then each scenario on one side and at once on the other."""
    record = Record()
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(pythons, scratch, args.full, record)
    scenarios = list(dict.fromkeys(figure.scenario for figure in figures))
    full = ["--full"] if args.full else []
    processes.adopt_orphans()
    # `timeout` and `kill` end a run the way Ctrl-C does: through the clean-up below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            runner.run("limits", "benchmarks.limits")
            for family, scenario in scenarios:
                for target in pythons:
                    if target != "limits":
                        module = f"benchmarks.core.{family}"
                        runner.run(target, module, scenario, "--target", target, *full)
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    return record


def as_json(record: Record, args: argparse.Namespace, pythons: dict[str, str]) -> dict[str, Any]:
    """The run as it is written to disk: medians and every value behind them."""
    return {
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_1_min": os.getloadavg()[0],
        },
        "rounds": args.rounds,
        "full": args.full,
        "units": {figure.key: figure.unit for figure in FIGURES}
        | {key: unit for key, (_, unit) in LIMITS.items()},
        **{target: record.medians(target) for target in pythons},
        "values": record.values,
        "notes": record.notes,
        "failures": record.failures,
    }


def bars(figures: list[Figure], record: Record) -> tuple[str, list[plot.Bar]]:
    """The bars to draw: against Ray where it ran, else against the limits."""
    skate, ray, limits = (record.medians(target) for target in ("skate", "ray", "limits"))
    drawn = []
    for figure in figures:
        other = ray.get(figure.key) if ray else limits.get(figure.limit or "")
        factor = figure.better(skate.get(figure.key), other)
        if factor is not None:
            mark = figure.times_ray if ray else figure.within and 1 / figure.within
            drawn.append(plot.Bar(figure.title, factor, report.times(factor), mark))
    against = "Ray (times better, same machine, same run)" if ray else "what the machine allows (1x)"
    return f"Skate against {against}; marks: what to reach", drawn


def main() -> None:
    args = parse()
    figures = chosen(args.only)
    pythons = interpreters(args)
    record = measure(figures, args, pythons)
    if args.json:
        args.json.write_text(json.dumps(as_json(record, args, pythons), indent=1, ensure_ascii=False) + "\n")
    skate, ray, limits = (record.medians(target) for target in ("skate", "ray", "limits"))
    # Sizes that no side was asked to run would only be empty rows.
    asked = [f for f in figures if args.full or f.key != "queued_tasks_1000000"]
    report.print_table(asked, skate, ray, limits)
    for target, notes in record.notes.items():
        for key, note in notes.items():
            print(f"{target}, {key} left out: {note}")
    for failure in record.failures:
        print(f"failed: {failure}")
    if args.plot:
        title, drawn = bars(figures, record)
        if drawn:
            args.plot.write_text(plot.draw(title, drawn), encoding="utf-8")
        else:
            print(f"{args.plot} not drawn: no figure has both sides of a comparison")


if __name__ == "__main__":
    main()
