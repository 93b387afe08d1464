"""Metrics of training runs under Ray's names: state, start and end of the workers, and the time of ranks in their reports.

They are only made when the metrics are read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from skate.train.controller import machine as machines
from skate.util.metrics import Recent

#: Ray's names of the states.
STATES = {
    machines.STARTING: "SCHEDULING",
    machines.RUNNING: "RUNNING",
    machines.RESTARTING: "RESTARTING",
    machines.RESIZING: "RESIZING",
    machines.FINISHED: "FINISHED",
    machines.ERRORED: "ERRORED",
}
_DESCRIPTIONS = {
    "controller_state": "1 for the state of the run, else 0.",
    "worker_group_start_total_time_s": "Seconds in which workers were started.",
    "worker_group_shutdown_total_time_s": "Seconds in which workers were ended.",
    "report_total_blocked_time_s": "Seconds that a rank has spent in its reports.",
    "checkpoint_sync_total_time_s": "Seconds that a rank has waited in its reports for other ranks.",
    "checkpoint_transfer_total_time_s": "Seconds in which a rank has written checkpoints to the storage.",
}

Family = tuple[str, str, str, tuple[float, ...], tuple[Any, ...]]
Labels = tuple[tuple[str, str], ...]


class RunFigures:
    """The metrics of one run."""

    def __init__(self, name: str) -> None:
        self._labels = (("ray_train_run_name", name), ("ray_train_run_id", os.urandom(16).hex()))
        self._state = machines.STARTING
        self._seconds = {"worker_group_start_total_time_s": 0.0, "worker_group_shutdown_total_time_s": 0.0}
        self._actors: list[str] = []
        self._ranks: dict[str, dict[Labels, float]] = {}

    def begin(self) -> None:
        """Add the metrics to those of this process."""
        _runs.add(self)

    def in_state(self, state: str) -> None:
        """Record the state of the run."""
        self._state = state

    @property
    def state(self) -> str:
        """The state of the run."""
        return self._state

    def seconds_by_rank(self) -> dict[int, dict[str, float]]:
        """Return the seconds that each rank has spent in reports, waiting for others, and writing checkpoints."""
        found: dict[int, dict[str, float]] = {}
        for name, values in list(self._ranks.items()):
            for labels, seconds in list(values.items()):
                rank = int(dict(labels)["ray_train_worker_world_rank"])
                of_rank = found.setdefault(rank, {})
                of_rank[name] = of_rank.get(name, 0.0) + seconds
        return found

    def started(self, actors: Sequence[str], seconds: float) -> None:
        """Record that the workers run: the ids of their actors by rank, and the time that it took."""
        self._actors = list(actors)
        self._seconds["worker_group_start_total_time_s"] += seconds

    def stopped(self, seconds: float) -> None:
        """Record that the workers have been ended, and the time that it took."""
        self._seconds["worker_group_shutdown_total_time_s"] += seconds

    def reported(self, arrivals: Mapping[int, float], uploads: Sequence[float]) -> None:
        """Record the end of a report: when ranks have arrived, and their seconds of writing before that."""
        if not arrivals:
            return
        now, last = time.time(), max(arrivals.values())
        for rank, since in arrivals.items():
            labels = self._labels_of(rank)
            self._add("report_total_blocked_time_s", labels, now - since + uploads[rank])
            self._add("checkpoint_sync_total_time_s", labels, last - since)
            self._add("checkpoint_transfer_total_time_s", labels, uploads[rank])

    def end(self, state: str) -> None:
        """Record the last state of the run."""
        self._state = state
        _runs.end(self)

    def series(self) -> dict[str, dict[Labels, float]]:
        """Return the values by metric and labels."""
        states: dict[Labels, float] = {
            (*self._labels, ("ray_train_controller_state", name)): float(state == self._state)
            for state, name in STATES.items()
        }
        seconds: dict[str, dict[Labels, float]] = {
            name: {self._labels: value} for name, value in self._seconds.items()
        }
        ranks = {name: dict(values) for name, values in list(self._ranks.items())}
        return {"controller_state": states, **seconds, **ranks}

    def actor_of(self, rank: int) -> str:
        """Return the id of the actor of a rank; empty if it is not known."""
        return self._actors[rank] if rank < len(self._actors) else ""

    def _labels_of(self, rank: int) -> Labels:
        actor = self.actor_of(rank)
        return (
            *self._labels, ("ray_train_worker_world_rank", str(rank)), ("ray_train_worker_actor_id", actor),
        )  # fmt: skip

    def _add(self, name: str, labels: Labels, seconds: float) -> None:
        values = self._ranks.setdefault(name, {})
        values[labels] = values.get(labels, 0.0) + max(0.0, seconds)


def _families(runs: list[RunFigures]) -> list[Family]:
    """Return the metrics of some runs."""
    found = [each.series() for each in runs]
    return [
        (f"train_{name}", "gauge", description, (), tuple(
            (labels, value, (), 0.0) for each in found for labels, value in each.get(name, {}).items()
        ))
        for name, description in _DESCRIPTIONS.items()
    ]  # fmt: skip


_runs = Recent(_families)
