"""Searches of Tune: trials with their configurations and results, curves, and why each ended, from the journal on disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.own_api.readings.announcements import Announcements, about
from skate.dashboard.own_api.readings.curves import Curves
from skate.dashboard.own_api.readings.journal_tail import JournalTail
from skate.dashboard.own_api.readings.plain import number, plain
from skate.util.announcements import Announced

#: The most trials that are shown, the most curves, and the points of each.
TRIALS_MAX = 2_000
CURVES_MAX = 100
POINTS_MAX = 200
SEARCHES_MAX = 20
#: Metrics that Tune adds to each result, and that are no results.
AUTOMATIC = frozenset(
    {
        "time_this_iter_s", "time_since_restore", "iterations_since_restore", "pid", "timestamp", "trial_id", "hostname",
        "node_ip", "date", "done", "checkpoint_dir_name", "experiment_tag", "should_checkpoint", "time_total_s",
        "training_iteration",
    }
)  # fmt: skip
#: The key that marks a value which JSON cannot have. The dashboard does not unpickle it.
PICKLED = "__pickled__"
NOT_SHOWN = "(an object)"

_announced = Announcements("tune")


class TrialRecord:
    """A trial, as the journal tells about it."""

    def __init__(self, id: str, entry: Mapping[str, object]) -> None:
        self.id = id
        self.name = f"{entry.get('name', '')}_{id}"
        self.config = _config(entry)
        self.tag = str(entry.get("tag") or "")
        self.state = "PENDING"
        self.why = ""
        self.error = ""
        self.failures = 0
        self.curves = Curves(POINTS_MAX)
        self.began: float | None = None
        self.last_at: float | None = None
        self.exploits: list[str] = []

    def result(self, entry: Mapping[str, object]) -> None:
        """Take up a result."""
        found = entry.get("r")
        if not isinstance(found, dict):
            return
        at = number(found.get("timestamp"))
        spent = number(found.get("time_total_s")) or 0.0
        if self.began is None and at is not None:
            self.began = at - spent
        self.last_at = at
        step = number(found.get("training_iteration"))
        self.curves.add(self.curves.count + 1 if step is None else step, at, found)

    def row(self) -> dict[str, object]:
        """Return it for a table."""
        last = {name: value for name, value in self.curves.last.items() if name not in AUTOMATIC}
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "why": self.why,
            "error": self.error,
            "failures": self.failures,
            "config": self.config,
            "last": {
                name: value for name, value in list(last.items())[:30] if not isinstance(value, dict | list)
            },
            "iterations": self.curves.last.get("training_iteration"),
            "seconds": self.curves.last.get("time_total_s"),
            "began": self.began,
            "last_at": self.last_at,
            "exploits": self.exploits[-5:],
        }


class SearchJournal:
    """The contents of the journals in the folder of a search.

    Args: folder: the folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tails: dict[str, JournalTail] = {}
        self.trials: dict[str, TrialRecord] = {}
        #: Grows with each entry, so that a page need not be told the same again.
        self.version = 0

    def read(self) -> None:
        """Take up what is new. Each session of the search, and each snapshot, begins a journal of its own."""
        try:
            names = sorted(each for each in os.listdir(self._folder) if each.startswith("journal-"))
        except OSError:
            return
        for name in names:
            path = os.path.join(self._folder, name, "journal.jsonl")
            for entry in self._tails.setdefault(name, JournalTail(path)).entries():
                self.version += 1
                self._take(entry)

    def _take(self, entry: dict[str, object]) -> None:
        kind, id = entry.get("e"), str(entry.get("id", ""))
        if kind == "trial" and len(self.trials) < TRIALS_MAX:
            self.trials[id] = TrialRecord(id, entry)
        trial = self.trials.get(id)
        if trial is None:
            return
        if kind == "result":
            trial.result(entry)
        elif kind == "start":
            trial.state = "RUNNING"
        elif kind == "pause":
            trial.state = "PAUSED"
        elif kind == "error":
            trial.failures += 1
            trial.error = str(entry.get("text", ""))
            trial.state = "PENDING" if entry.get("again") else trial.state
        elif kind == "exploit":
            trial.exploits.append(str(entry.get("donor", "")))
            trial.config = _config(entry) or trial.config
        elif kind == "end":
            trial.state = str(entry.get("s", ""))
            trial.why = str(entry.get("why") or "")

    def metrics(self) -> list[str]:
        """Return the numeric metrics that trials report, besides those of Tune."""
        names = dict.fromkeys(name for each in self.trials.values() for name in each.curves.names)
        return [name for name in names if name not in AUTOMATIC]

    def best(self, metric: str, mode: str) -> tuple[str, float] | None:
        """Return the trial with the best value of a metric that it has reported, and the value."""
        found: tuple[str, float] | None = None
        for each in self.trials.values():
            values = [value for value in each.curves.column(metric) if value is not None]
            last = number(each.curves.last.get(metric))
            values += [last] if last is not None else []
            if values:
                value = min(values) if mode == "min" else max(values)
                if found is None or (value < found[1] if mode == "min" else value > found[1]):
                    found = each.id, value
        return found

    def best_so_far(self, metric: str, mode: str) -> dict[str, list[float]]:
        """Return how the best value has improved, by time."""
        points = sorted(
            (at, value)
            for each in self.trials.values()
            for at, value in zip(each.curves.at, each.curves.column(metric), strict=True)
            if at is not None and value is not None
        )
        times: list[float] = []
        bests: list[float] = []
        for at, value in points:
            if not bests or (value < bests[-1] if mode == "min" else value > bests[-1]):
                times.append(at)
                bests.append(value)
        return {"at": times, "value": bests}

    def curves(self, metric: str, mode: str) -> list[dict[str, object]]:
        """Return the curves of a metric: those of the trials whose last values are best."""
        sign = 1 if mode == "min" else -1
        ranked = sorted(
            (each for each in self.trials.values() if metric in each.curves.names),
            key=lambda each: sign * (number(each.curves.last.get(metric)) or 0.0),
        )
        return [
            {"id": each.id, "x": each.curves.x, "value": each.curves.column(metric)}
            for each in ranked[:CURVES_MAX]
        ]


class Searches:
    """The searches that pages have asked for, by folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, SearchJournal] = {}

    def of(self, each: Announced) -> SearchJournal | None:
        """Return the journal of a search as of now; None if it is not on this machine's disks."""
        folder = each.facts.get("folder")
        if not isinstance(folder, str) or not os.path.isabs(folder):
            return None
        with self._lock:
            journal = self._kept.pop(folder, None) or SearchJournal(folder)
            self._kept[folder] = journal
            while len(self._kept) > SEARCHES_MAX:
                del self._kept[next(iter(self._kept))]
            journal.read()
            return journal


_searches = Searches()


def searches(request: Request) -> Response:
    """Return the searches, the latest first.

    With `key`, one of them with its trials and the curves of `metric`; nothing but its version if that is `version`.
    """
    key, asked = request.query_params.get("key", ""), request.query_params
    found = [
        _search(each, bool(key), asked.get("metric", ""), asked.get("version", ""))
        for each in _announced.rows()[:SEARCHES_MAX]
        if key in ("", each.key)
    ]
    return JSONResponse(plain({"at": time.time(), "searches": found}))


def _search(each: Announced, in_full: bool, metric: str, version: str) -> dict[str, object]:
    journal = _searches.of(each)
    metric = metric or str(each.facts.get("metric") or "")
    mode = str(each.facts.get("mode") or "max")
    if journal is not None and not metric:
        metric = next(iter(journal.metrics()), "")
    states: dict[str, int] = {}
    for trial in journal.trials.values() if journal else ():
        states[trial.state] = states.get(trial.state, 0) + 1
    best = journal.best(metric, mode) if journal and metric else None
    found: dict[str, object] = {
        **about(each),
        **{
            name: each.facts.get(name)
            for name in ("path", "scheduler", "searcher", "samples", "why", "interrupted")
        },
        "state": "ended" if each.ended else "running" if each.is_reachable else "lost",
        "metric": metric,
        "mode": mode,
        "metrics": journal.metrics() if journal else [],
        "has_journal": journal is not None,
        "states": states,
        "best": {"id": best[0], "value": best[1]} if best else None,
        "version": f"{journal.version}/{metric}" if journal else "",
    }
    if in_full and journal is not None and version != found["version"]:
        found |= {
            "trials": [trial.row() for trial in journal.trials.values()],
            "curves": journal.curves(metric, mode) if metric else [],
            "best_so_far": journal.best_so_far(metric, mode) if metric else {},
        }
    return found


def _config(entry: Mapping[str, object]) -> dict[str, object]:
    """Return the configuration of a trial; if it is not plain, its sampled parameters."""
    for name in ("config", "params"):
        found = entry.get(name)
        if isinstance(found, dict) and PICKLED not in found:
            return {key: _shown(value) for key, value in list(found.items())[:100]}
    return {}


def _shown(value: object) -> object:
    return NOT_SHOWN if isinstance(value, dict) and PICKLED in value else value
