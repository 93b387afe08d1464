"""Training runs: state, curves, ranks and checkpoints, read from the run's journal on disk and from its controller."""

from __future__ import annotations

import os
import threading
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.own_api.readings.announcements import Announcements, about
from skate.dashboard.own_api.readings.curves import Curves
from skate.dashboard.own_api.readings.journal_tail import JournalTail
from skate.dashboard.own_api.readings.plain import number, plain, rows
from skate.util.announcements import Announced

POINTS_MAX = 1_000
#: The most attempts, failures and checkpoints that are shown of a run: the latest.
LISTED_MAX = 200
#: The most files of a checkpoint whose sizes are added up, and the most journals that are kept read.
FILES_MAX = 5_000
JOURNALS_MAX = 50

_announced = Announcements("train")


class RunJournal:
    """The contents of a run's journal.

    Args:
        path: the journal.
        folder: the folder of the run, with its checkpoints.
    """

    def __init__(self, path: str, folder: str) -> None:
        self._tail = JournalTail(path)
        self._folder = folder
        self._sizes: dict[str, int | None] = {}
        self.curves = Curves(POINTS_MAX)
        self.attempts: list[dict[str, object]] = []
        self.failures: list[dict[str, object]] = []
        self.checkpoints: dict[str, dict[str, object]] = {}
        self.state = ""
        self.last_at: float | None = None

    def read(self) -> None:
        """Take up what is new."""
        for entry in self._tail.entries():
            take = getattr(self, f"_on_{entry.get('event')}", None)
            if take is not None:
                take(entry)

    def _on_begin(self, entry: dict[str, object]) -> None:
        self.state = "STARTED"

    def _on_start(self, entry: dict[str, object]) -> None:
        named = {name: entry.get(name) for name in ("attempt", "workers")}
        self.attempts.append({**named, "began": entry.get("time"), "ended": None, "reason": ""})
        del self.attempts[:-LISTED_MAX]

    def _on_stop(self, entry: dict[str, object]) -> None:
        if self.attempts:
            self.attempts[-1].update(ended=entry.get("time"), reason=entry.get("reason"))

    def _on_failure(self, entry: dict[str, object]) -> None:
        attempt = self.attempts[-1]["attempt"] if self.attempts else None
        self.failures.append(
            {**{name: entry.get(name) for name in ("time", "ranks", "error")}, "attempt": attempt}
        )
        del self.failures[:-LISTED_MAX]

    def _on_report(self, entry: dict[str, object]) -> None:
        metrics = entry.get("metrics")
        metrics = metrics if isinstance(metrics, dict) else {}
        at, index = number(entry.get("time")), number(entry.get("index"))
        self.last_at = at
        self.curves.add(self.curves.count if index is None else index, at, metrics)
        name = entry.get("checkpoint")
        if isinstance(name, str):
            self.checkpoints.pop(name, None)
            self.checkpoints[name] = {
                "name": name,
                "index": index,
                "time": at,
                "upload_s": number(entry.get("upload_s")),
                "path": entry.get("path", ""),
                "metrics": dict(list(metrics.items())[:20]),
                "deleted": False,
            }
            while len(self.checkpoints) > LISTED_MAX:
                del self.checkpoints[next(iter(self.checkpoints))]

    def _on_deleted(self, entry: dict[str, object]) -> None:
        found = self.checkpoints.get(str(entry.get("checkpoint")))
        if found is not None:
            found["deleted"] = True

    def _on_validated(self, entry: dict[str, object]) -> None:
        found = self.checkpoints.get(str(entry.get("checkpoint")))
        metrics = entry.get("metrics")
        if found is not None and isinstance(metrics, dict):
            found["validated"] = metrics

    def _on_finished(self, entry: dict[str, object]) -> None:
        self.state = "FINISHED"

    def _on_errored(self, entry: dict[str, object]) -> None:
        self.state = "ERRORED"

    def sized_checkpoints(self) -> list[dict[str, object]]:
        """Return the checkpoints with the bytes of their files; a complete one does not change."""
        for name, each in self.checkpoints.items():
            if name not in self._sizes and not each["path"]:
                self._sizes[name] = _bytes_below(os.path.join(self._folder, os.path.basename(name)))
        return [{**each, "bytes": self._sizes.get(name)} for name, each in self.checkpoints.items()]


class Journals:
    """The journals that pages have asked for, by path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, RunJournal] = {}

    def of(self, each: Announced) -> RunJournal | None:
        """Return the journal of a run as of now; None if it is not on this machine's disks."""
        path = each.facts.get("journal")
        if not isinstance(path, str) or not os.path.isabs(path):
            return None
        with self._lock:
            journal = self._kept.pop(path, None) or RunJournal(path, str(each.facts.get("path", "")))
            self._kept[path] = journal
            while len(self._kept) > JOURNALS_MAX:
                del self._kept[next(iter(self._kept))]
            journal.read()
            return journal


_journals = Journals()


def announced() -> list[Announced]:
    """Return the latest runs, the last one first."""
    return _announced.rows()[:LISTED_MAX]


def journal_of(each: Announced) -> RunJournal | None:
    """Return the journal of a run as of now; None if it is not on this machine's disks."""
    return _journals.of(each)


def runs(request: Request) -> Response:
    """Return the runs, the latest first; with `key`, one of them with curves, ranks, checkpoints and failures."""
    key = request.query_params.get("key", "")
    found = [_run(each, bool(key)) for each in announced() if key in ("", each.key)]
    return JSONResponse(plain({"at": time.time(), "runs": found}))


def _run(each: Announced, in_full: bool) -> dict[str, object]:
    journal = _journals.of(each)
    ranks = rows(each.figures.get("ranks"))
    found: dict[str, object] = {
        **about(each),
        "state": state_of(each, journal),
        "path": each.facts.get("path"),
        "workers": each.facts.get("workers"),
        "max_failures": each.facts.get("max_failures"),
        "datasets": each.facts.get("datasets"),
        "late": each.figures.get("late", []) if not each.ended else [],
        "has_journal": journal is not None,
        "reports": journal.curves.count if journal else None,
        "last_at": journal.last_at if journal else None,
        "last": dict(list(journal.curves.last.items())[:20]) if journal else {},
        "attempt": journal.attempts[-1]["attempt"] if journal and journal.attempts else None,
        "failures_count": len(journal.failures) if journal else None,
        "checkpoints_count": sum(not one["deleted"] for one in journal.checkpoints.values())
        if journal
        else None,
    }
    if in_full and journal is not None:
        found |= {
            "curves": journal.curves.columns(),
            "attempts": journal.attempts,
            "failures": journal.failures,
            "checkpoints": journal.sized_checkpoints(),
        }
    return {**found, "ranks": ranks} if in_full else found


def state_of(each: Announced, journal: RunJournal | None) -> str:
    """Return the state that the controller says, or that the journal says, or that its process has ended before."""
    said = str(each.figures.get("state", ""))
    if said and (each.is_reachable or each.ended):
        return said
    if journal is not None and journal.state in ("FINISHED", "ERRORED"):
        return journal.state
    return "LOST" if not each.is_reachable else journal.state if journal is not None else ""


def _bytes_below(folder: str) -> int | None:
    """Return the bytes of the files below a folder; None if there is none, or it has too many."""
    if not os.path.isdir(folder):
        return None
    total, left = 0, FILES_MAX
    for path, _, names in os.walk(folder):
        for name in names:
            left -= 1
            if left < 0:
                return None
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:  # deleted meanwhile
                continue
    return total
