"""The history of a run: last metrics, existing checkpoints, and the journal from which they are restored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.configs import CheckpointConfig
from skate.train.modes import ReportedCheckpoint, ReportedCheckpointStatus
from skate.train.storage import filesystem as files
from skate.train.storage.journal import Journal
from skate.train.storage.retention_policy import KeptCheckpoint, best_first, to_delete
from skate.train.storage.run_folder import RunFolder
from skate.train.worker.session import Reported


class History:
    """Records reports in the journal, and deletes old checkpoints."""

    def __init__(self, folder: RunFolder, config: CheckpointConfig) -> None:
        self.folder = folder
        self.config = config
        self.journal = Journal(folder)
        self.last_metrics: dict[str, Any] | None = None
        self.kept: list[KeptCheckpoint] = []
        self.rows: list[dict[str, Any]] = []
        self._external: dict[str, Checkpoint] = {}
        self._status: dict[str, ReportedCheckpointStatus] = {}
        self._deleted: set[str] = set()
        self._index = 0

    # -- before the run

    def load(self, recover: bool = True) -> bool:
        """Read the journal of an earlier run of this name; True if there was one.

        With `recover`, complete that run's unfinished checkpoints, which only the resuming run may do.
        """
        found = False
        for entry in self.journal.entries():
            found = True
            self._replay(entry)
        if recover:
            self.recover()
        for each in list(self.kept):
            if each.name not in self._external and not self.folder.is_complete(each.name):
                self.kept.remove(each)
                if recover:  # the crash came before the line of its deletion was written
                    self.journal.append({"event": "deleted", "checkpoint": each.name})
        return found

    def recover(self) -> None:
        """Complete or remove the unfinished checkpoints of an attempt; only while no worker writes."""
        known = {each.name for each in self.kept}
        available = self.folder.recover()
        for name, manifest in sorted(available.items(), key=lambda each: int(each[1].get("index", -1))):
            if name in known:
                continue
            if name in self._deleted:
                self.folder.delete(name)
            elif int(manifest.get("index", -1)) >= self._index:
                # The crash occurred between the manifest and the line in the journal.
                entry = {"event": "report", "index": self._index, "time": manifest["time"], "recovered": True}
                entry |= {"attempt": manifest["attempt"], "metrics": manifest["metrics"], "checkpoint": name}
                self.journal.append(entry, durable=True)
                self._replay(entry)

    def _replay(self, entry: dict[str, Any]) -> None:
        kind = entry.get("event")
        if kind == "report":
            self.last_metrics = entry["metrics"]
            self.rows.append(entry["metrics"])
            name = entry.get("checkpoint")
            if name is not None:
                self._deleted.discard(name)
                self.kept = [each for each in self.kept if each.name != name]
                self.kept.append(KeptCheckpoint(name, entry["metrics"], self._index))
                if "path" in entry:
                    self._external[name] = _checkpoint_of(entry["path"])
            self._index += 1
        elif kind == "deleted":
            self._deleted.add(entry["checkpoint"])
            self.kept = [each for each in self.kept if each.name != entry["checkpoint"]]
        elif kind == "validated":
            self._add_metrics(
                entry["checkpoint"], entry["metrics"], ReportedCheckpointStatus(entry["status"])
            )

    # -- during the run

    def take(self, reports: Sequence[Reported | None], attempt: int) -> Checkpoint | None:
        """Record a report of all ranks, None for lost ones. Return the checkpoint if there is one."""
        first = reports[0]
        assert first is not None, "rank 0 is never lost alone"
        named = [each for each in reports if each is not None and each.name is not None]
        entry: dict[str, Any] = {
            "event": "report",
            "index": self._index,
            "time": time.time(),
            "attempt": attempt,
            "metrics": first.metrics,
        }
        checkpoint = None
        if named:
            names = {each.name for each in named}
            if len(names) > 1:
                raise ValueError(
                    f"ranks have used different names for one checkpoint: {sorted(map(str, names))}; "
                    "checkpoint_dir_name must be the same on all ranks"
                )
            name = str(named[0].name)
            elsewhere = next((each.elsewhere for each in named if each.elsewhere is not None), None)
            if elsewhere is None:
                ranks = [
                    rank for rank, each in enumerate(reports) if each is not None and each.name is not None
                ]
                manifest = {
                    "ranks": ranks,
                    "metrics": first.metrics,
                    "index": self._index,
                    "attempt": attempt,
                }
                checkpoint = self.folder.commit(name, manifest)
            else:
                checkpoint = self._external[name] = elsewhere
                entry["path"] = _url_of(elsewhere)
            entry["checkpoint"] = name
            entry["upload_s"] = round(max(each.seconds for each in named), 6)
            self.kept = [each for each in self.kept if each.name != name]
            self.kept.append(KeptCheckpoint(name, dict(first.metrics), self._index))
            self._status[name] = ReportedCheckpointStatus.COMMITTED
        self.last_metrics = first.metrics
        self.rows.append(first.metrics)
        self._index += 1
        self.journal.append(entry, durable=checkpoint is not None)
        if checkpoint is not None:
            self._drop_surplus()
        return checkpoint

    def _drop_surplus(self) -> None:
        pending = ReportedCheckpointStatus.PENDING_VALIDATION
        available = [each for each in self.kept if self._status.get(each.name) is not pending]
        for each in to_delete(available, self.config):
            self.kept.remove(each)
            self.journal.append({"event": "deleted", "checkpoint": each.name})
            if each.name in self._external:
                _delete(self._external.pop(each.name))
            else:
                self.folder.delete(each.name)

    def set_status(self, name: str, status: ReportedCheckpointStatus) -> None:
        """Set the status of a checkpoint's validation."""
        self._status[name] = status

    def validated(self, name: str, metrics: dict[str, Any], status: ReportedCheckpointStatus) -> None:
        """Record the end of a validation, and add its metrics to those of the checkpoint."""
        self._add_metrics(name, metrics, status)
        self.journal.append(
            {"event": "validated", "checkpoint": name, "metrics": metrics, "status": status.value},
            durable=True,
        )
        self._drop_surplus()

    def _add_metrics(self, name: str, metrics: dict[str, Any], status: ReportedCheckpointStatus) -> None:
        self._status[name] = status
        for each in self.kept:
            if each.name == name:
                each.metrics.update(metrics)

    # -- contents

    def checkpoint(self, kept: KeptCheckpoint) -> Checkpoint:
        """The checkpoint of an entry."""
        return self._external.get(kept.name) or self.folder.checkpoint(kept.name)

    @property
    def latest(self) -> Checkpoint | None:
        """The last checkpoint, from which the run resumes."""
        return self.checkpoint(max(self.kept, key=lambda each: each.index)) if self.kept else None

    def best(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Return the kept checkpoints with their metrics: oldest first, or worst first if they are ranked."""
        return [(self.checkpoint(each), dict(each.metrics)) for each in self._in_order()]

    def _in_order(self) -> list[KeptCheckpoint]:
        ranked = sorted(self.kept, key=lambda each: each.index)
        attribute = self.config.checkpoint_score_attribute
        if attribute is not None:
            ranked = best_first(ranked, attribute, self.config.checkpoint_score_order)[::-1]
        return ranked

    def reported(self) -> list[ReportedCheckpoint]:
        """Return the kept checkpoints with their status, in the same order."""
        committed = ReportedCheckpointStatus.COMMITTED
        return [
            ReportedCheckpoint(
                self.checkpoint(each), dict(each.metrics), self._status.get(each.name, committed)
            )
            for each in self._in_order()
        ]

    def note(self, **entry: Any) -> None:
        """Record an event that is not a report: a start, a failure, the end."""
        self.journal.append({"time": time.time(), **entry})

    def close(self) -> None:
        """Close the journal at the end of the run."""
        self.journal.close()


def _url_of(checkpoint: Checkpoint) -> str:
    if checkpoint._local:
        return checkpoint.path
    return f"{checkpoint.filesystem.type_name}://{checkpoint.path}"


def _checkpoint_of(url: str) -> Checkpoint:
    return Checkpoint(url)


def _delete(checkpoint: Checkpoint) -> None:
    if checkpoint._local:
        import shutil  # few runs have checkpoints elsewhere

        shutil.rmtree(files.local_path(checkpoint.path), ignore_errors=True)
    else:
        checkpoint.filesystem.delete_dir(checkpoint.path)
