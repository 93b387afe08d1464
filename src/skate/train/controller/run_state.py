"""The state of a run for those who look at it: its ranks, when each has reported, and which ones others wait for.

The run announces itself with the path of its journal, which has all reports. The state is made only when it is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from skate.train.controller.run_figures import STATES, RunFigures
from skate.train.controller.run_settings import settings_of
from skate.train.controller.timeline_spans import Spans
from skate.train.storage.journal import NAME
from skate.util.announcements import Announcement, announce

LIBRARY = "train"


class RunState:
    """The state of one run."""

    def __init__(self, run: Any, figures: RunFigures, spans: Spans) -> None:
        self._run = run
        self._figures = figures
        self._spans = spans
        self._where: Sequence[Mapping[str, Any]] = ()
        self._announcement: Announcement | None = None

    def begin(self) -> None:
        """Announce the run."""
        run = self._run
        folder = run.folder
        facts = {
            "run": run.name,
            "path": folder.path,
            "journal": folder.at(NAME) if folder.local else "",
            "workers": run.scaling.num_workers,
            "max_failures": run.run_config.failure_config.max_failures,
            "datasets": sorted(map(str, run.datasets)),
            "settings": settings_of(run),
        }
        self._announcement = announce(LIBRARY, run.name, facts, self.figures, remember=True)

    def started(self, where: Sequence[Mapping[str, Any]]) -> None:
        """Record where the ranks of an attempt run: their processes and nodes."""
        self._where = list(where)

    def end(self) -> None:
        """Record the end of the run."""
        if self._announcement is not None:
            self._announcement.end()

    def figures(self) -> Mapping[str, object]:
        """Return the current state."""
        now = time.time()
        seconds = self._figures.seconds_by_rank()
        ranks = []
        for rank, place in enumerate(self._where):
            at, kind, number = self._spans.latest.get(rank, (0.0, "", -1))
            waits = (kind, number) in self._spans.open
            ranks.append(
                {
                    "rank": rank,
                    "pid": place.get("pid"),
                    "node_id": place.get("node"),
                    "ip": place.get("ip"),
                    "gpu_ids": place.get("gpus"),
                    "actor_id": self._figures.actor_of(rank),
                    "last_at": at,
                    "last_kind": kind,
                    "last_number": number,
                    "lag_s": now - at if at else None,
                    "waits_for_others": waits,
                    **seconds.get(rank, {}),
                }
            )
        late = sorted({rank for ranks in self._spans.missing(len(self._where)) for rank in ranks})
        return {"state": STATES[self._figures.state], "ranks": ranks, "late": late}
