"""Finished trainings of `make learning`, kept in the repository: ten points of the curve for each task, side and seed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rllib.curves import POINTS, Curve, curve_of, points_below, scores
from benchmarks.rllib.learning_tasks import TASKS, Task

FOLDER = Path(__file__).parent / "finished"
#: Packages whose versions may change a curve.
PACKAGES = {"skate": ("skate", "torch", "gymnasium", "numpy")}
PACKAGES["sb3"] = ("stable-baselines3", *PACKAGES["skate"][1:])
SIDES = tuple(PACKAGES)
#: Fields of a task that a side does not read.
OF_THE_OTHER = {"skate": ("sb3",), "sb3": ("ours", "model", "module")}


def settings_hash(task: Task, side: str) -> str:
    """Return a short hash of all settings of a task on one side, which changes with each of them."""
    given = {name: value for name, value in asdict(task).items() if name not in OF_THE_OTHER[side]}
    text = json.dumps(given | {"points": POINTS}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions_of(side: str) -> dict[str, str]:
    """Return the versions of the packages that a side trains with, in its own process."""
    found = {}
    for package in PACKAGES[side]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a checkout that is not installed
            found[package] = "unknown"
    return found


class Finished:
    """The finished trainings in a folder, one JSON file for each task.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    def read(self, name: str) -> dict[str, dict[int, dict[str, Any]]]:
        """Return what is kept of a task with its present settings: by side and seed, `scores` and `versions`."""
        file = self.folder / f"{name}.json"
        found: dict[str, dict[int, dict[str, Any]]] = {side: {} for side in SIDES}
        if not file.exists():
            return found
        for each in json.loads(file.read_text()):
            if each["settings"] == settings_hash(TASKS[name], each["side"]):
                found[each["side"]][each["seed"]] = each
        return found

    def stale(self, name: str) -> int:
        """Return how many trainings of a task were made with settings that have changed since."""
        file = self.folder / f"{name}.json"
        rows = json.loads(file.read_text()) if file.exists() else []
        return sum(each["settings"] != settings_hash(TASKS[name], each["side"]) for each in rows)

    def add(
        self,
        name: str,
        side: str,
        seed: int,
        episodes: Sequence[Sequence[float]],
        steps: int,
        versions: Mapping[str, str],
    ) -> None:
        """Keep a finished training, in place of an older one of this side and seed.

        Args:
            name: The task.
            side: One of `SIDES`.
            seed: The seed.
            episodes: Steps at the end of each episode, and its return.
            steps: Steps of the training.
            versions: Versions of the packages that it was trained with.
        """
        kept = self.read(name)
        kept[side][seed] = {
            "side": side,
            "seed": seed,
            "settings": settings_hash(TASKS[name], side),
            "versions": dict(versions),
            "scores": [round(float(score), 2) for score in scores(episodes, steps)],
        }
        rows = [json.dumps(kept[each][number]) for each in SIDES for number in sorted(kept[each])]
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{name}.json.new"
        draft.write_text("[\n" + ",\n".join(rows) + "\n]\n")
        os.replace(draft, self.folder / f"{name}.json")

    def curves(self, name: str) -> dict[str, Curve]:
        """Return the curve of each side over the seeds that are finished on every side that has any."""
        kept = {side: found for side, found in self.read(name).items() if found}
        if not kept:
            return {}
        both = sorted(set.intersection(*(set(found) for found in kept.values())))
        if not both:
            return {}
        return {
            side: curve_of(np.array([found[seed]["scores"] for seed in both])) for side, found in kept.items()
        }


def table(finished: Finished, names: Iterable[str]) -> str:
    """Return a Markdown table of areas with their intervals, and where ours is below the other's interval."""
    lines = [
        "| task | steps | seeds | Skate | Stable-Baselines3 | points of ten below its interval |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name in names:
        task, curves = TASKS[name], finished.curves(name)
        title = f"{task.algorithm} {task.env}"
        if len(curves) < len(SIDES):
            lines.append(f"| {title} | {task.steps:,} | 0 | | | |")
            continue
        below = points_below(curves["skate"], curves["sb3"])
        tenths = ", ".join(str(at + 1) if at < POINTS else "mean" for at in below) or "none"
        cells = " | ".join(cell_of(curves[side]) for side in SIDES)
        lines.append(f"| {title} | {task.steps:,} | {curves['skate'].seeds} | {cells} | {tenths} |")
    return "\n".join(lines) + "\n"


def cell_of(curve: Curve) -> str:
    """Return the mean over a curve with its interval."""
    area, low, high = curve.area
    return f"{area:,.1f} ({low:,.1f} to {high:,.1f})"
