"""Run Ray's own examples of RLlib on Skate, and print which of them run.

Run it with ``make ray-examples``; ``ARGS="--only connectors"`` runs some of them. The examples stay in the environment of the
installed Ray; only the import path ``ray.rllib.examples`` leads to them, and all other names of ``ray`` to Skate.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rllib.ray_examples.settings import LONGER, OTHER_ALGORITHMS, START, command_of, programs

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run of one program ended.

    Attributes:
        program: Its name.
        end: ``ran``, ``failed``, ``needs`` (an algorithm that is refused, or a package) or ``time``.
        seconds: How long it took.
        reason: The last line of its errors, unless it ran.
    """

    program: str
    end: str
    seconds: float
    reason: str = ""


def run(examples: Path, program: str, timeout: float, log: Path) -> Outcome:
    """Run one program.

    Args:
        examples: The folder ``ray/rllib/examples``.
        program: The name of the program.
        timeout: Seconds after which it is ended.
        log: File for its output.
    """
    paths = [str(START), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory(prefix="ray-examples-") as folder, log.open("w") as output:
        environment = {
            **os.environ,
            "HOME": folder,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "RAY_EXAMPLES": str(examples),
            "RAY_AIR_NEW_OUTPUT": "0",
        }
        began = time.monotonic()
        # A session of its own: what the program leaves is ended with it.
        process = subprocess.Popen(
            [sys.executable, *command_of(examples, program)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout * LONGER.get(program, 1.0))
        except subprocess.TimeoutExpired:
            code = None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return outcome_of(program, code, time.monotonic() - began, log.read_text(errors="replace"))


def outcome_of(program: str, code: int | None, seconds: float, text: str) -> Outcome:
    """Return how a run ended.

    Args:
        program: The name of the program.
        code: Its exit code; None if it was ended.
        seconds: How long it took.
        text: Its output.
    """
    if code == 0:
        return Outcome(program, "ran", seconds)
    if code is None:
        return Outcome(program, "time", seconds, "did not end in time")
    errors = [
        line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception|Refused|Exit)\b.*:", line)
    ]
    reason = errors[-1] if errors else f"exit code {code}"
    # A program that imports an example which Ray's package does not have cannot run on Ray either.
    absent = re.search(
        r"No module named|is not (?:available|installed)|has no ray\.rllib\.examples\.", reason
    )
    return Outcome(program, "needs" if absent else "failed", seconds, reason)


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as lines: all of them, then the counts.

    Args:
        outcomes: The outcomes.
    """
    lines = [f"{each.end:7}{each.seconds:6.0f} s  {each.program:64}{each.reason[:140]}" for each in outcomes]
    ours = [each for each in outcomes if each.program not in OTHER_ALGORITHMS]
    counts = {end: sum(each.end == end for each in outcomes) for end in ("ran", "failed", "time", "needs")}
    lines.append(", ".join(f"{end} {count}" for end, count in counts.items()))
    lines.append(f"for PPO, DQN and SAC: {sum(each.end == 'ran' for each in ours)} of {len(ours)} ran")
    return "\n".join(lines)


def main() -> int:
    """Run the examples; return 1 if one failed."""
    parser = argparse.ArgumentParser(description="run Ray's examples of RLlib on Skate")
    parser.add_argument("--examples", type=Path, required=True, help="the folder ray/rllib/examples")
    parser.add_argument("--only", default="", help="run programs whose names contain this text")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each program")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the output of each program")
    arguments = parser.parse_args()
    logs = arguments.logs or Path(tempfile.mkdtemp(prefix="ray-examples-logs-"))
    logs.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for program in programs(arguments.examples):
        if arguments.only in program:
            log = logs / f"{program.replace('/', '-')}.log"
            outcomes.append(run(arguments.examples.absolute(), program, arguments.timeout, log))
            print(table(outcomes[-1:]).splitlines()[0], flush=True)
    print("\n".join(table(outcomes).splitlines()[-2:]))
    print(f"output of the programs: {logs}")
    return int(any(each.end in ("failed", "time") for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
