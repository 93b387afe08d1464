"""Measurements of reinforcement learning: each scenario on one target, in a process of its own, one thread of torch each.

Rates are environment steps per CPU second of the process, or per second where several processes work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rllib.settings import BEFORE_LEARNING, SETTINGS, Settings, smaller

#: What the project asks of itself.
REACH = {
    "ppo_local": "≥ 5x Ray, ≥ 2x SB3, ≥ 0.85 of bare",
    "sampling": "≥ 10x Ray",
    "ppo_default": "≥ 2.5x Ray",
    "ppo_runners": "≥ 5x Ray",
    "callback": "≥ 3x Ray",
    "mean_std_filter": "≥ 3x Ray",
    "connector": "≥ 3x Ray",
    "lstm": "≥ 4x Ray",
    "multi_agent": "≥ 5x Ray",
    "dqn": "≥ 10x Ray, ≥ 0.95 of SB3",
    "dqn_default": "≥ 10x Ray",
    "sac": "≥ 8x Ray",
    "sac_small": "≥ 8x Ray, ≥ SB3",
    "start_s": "≤ 3 s",
    "calls_per_step": "≤ 4",
}
#: The targets of each scenario, in the order in which they run.
ALL = ("bare", "sb3", "ray", "skate")
TARGETS = dict.fromkeys(SETTINGS, ("ray", "skate")) | {
    "ppo_local": ALL,
    "sampling": ALL,
    "ppo_default": ALL,
    "start": ALL,
    "calls": ALL,
    "dqn": ALL,
    "sac": ("sb3", "ray", "skate"),
    "sac_small": ALL,
}
#: Figures of which less is better.
LESS_IS_BETTER = ("start_s", "calls_per_step")
FOLDERS = {"bare": "/benchmarks/rllib/", "sb3": "/stable_baselines3/", "ray": "/ray/", "skate": "/skate/"}


def program(target: str, scenario: str, settings: Settings) -> Any:
    """Return the training of a target; only what it needs is imported."""
    if target == "bare" and settings.algorithm != "PPO":
        from benchmarks.rllib.bare_off_policy import BareDQN, BareSAC

        return (BareDQN if settings.algorithm == "DQN" else BareSAC)(settings)
    if target == "bare":
        from benchmarks.rllib.bare import BarePPO

        made = BarePPO(settings)
        if scenario == "sampling":
            made.learn = lambda *columns: None  # type: ignore[method-assign]
        return made
    if target == "sb3":
        from benchmarks.rllib.on_sb3 import OnSb3

        return OnSb3(settings, sampling=scenario == "sampling")
    from benchmarks.rllib.on_rllib import OnRllib

    return OnRllib(target, scenario, settings)


def rate(trained: Any, settings: Settings, seconds: float, clock: Callable[[], float]) -> float:
    """Return the steps per second of the clock, after the first steps and whole iterations."""
    steps = 0
    while steps < max(settings.batch, BEFORE_LEARNING + 10 if settings.algorithm != "PPO" else 0):
        steps += trained.iterate()
    begin, steps = clock(), 0
    while (spent := clock() - begin) < seconds or not steps:
        steps += trained.iterate()
    return steps / spent


def calls_per_step(trained: Any, target: str) -> float:
    """Return how many Python functions of the target's own are called for a step of an environment."""
    trained.iterate()
    folder, count = FOLDERS[target], 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and folder in frame.f_code.co_filename

    sys.setprofile(profile)
    steps = trained.iterate()
    sys.setprofile(None)
    return count / steps


def age() -> float:
    """Return the seconds since this process started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def measured(target: str, scenario: str, seconds: float, tiny: bool) -> dict[str, float]:
    """Return the figures of a scenario on one target."""
    settings = smaller(SETTINGS[scenario]) if tiny else SETTINGS[scenario]
    trained = program(target, scenario, settings)
    try:
        if scenario == "start":
            trained.iterate()
            return {"start_s": age()}
        if scenario == "calls":
            return {"calls_per_step": calls_per_step(trained, target)}
        clock = time.perf_counter if settings.runners else time.process_time
        return {scenario: rate(trained, settings, seconds, clock)}
    finally:
        trained.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SETTINGS)
    parser.add_argument("--target", default="skate", choices=ALL)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--tiny", action="store_true", help="sizes that show only that it runs")
    args = parser.parse_args()
    figures = measured(args.target, args.scenario, 0.01 if args.tiny else args.seconds, args.tiny)
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
