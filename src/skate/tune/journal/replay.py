"""Reconstruction of a search's trials from its snapshot and journal, as of the last entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.train.storage.retention_policy import KeptCheckpoint
from skate.train.storage.run_folder import RunFolder
from skate.tune.experiment.trial import Trial, source_of
from skate.tune.journal.codec import trial_of, trial_of_state, unpacked, with_config
from skate.tune.journal.journal import read


class Replay:
    """Rebuilds the trials of a search from its folder.

    Args:
        folder: the folder of the search.
        witness: called with each entry and its trial after the entry is applied; a restored search updates
            searcher and scheduler.

    Raises:
        FileNotFoundError: there is no search in the folder.
    """

    def __init__(
        self, folder: RunFolder, witness: Callable[[str, Trial, dict[str, Any]], None] | None = None
    ) -> None:
        found = read(folder)
        if found is None:
            raise FileNotFoundError(
                f"there is no search at {folder.path!r}: it has no experiment_state-*.json"
            )
        self.state, self.entries = found
        self.folder = folder
        self.trials: list[Trial] = []
        self.by_id: dict[str, Trial] = {}
        for each in self.state["trials"]:
            self._take(trial_of_state(each))
        self._witness = witness

    def _take(self, trial: Trial) -> None:
        trial.experiment_folder = self.folder
        self.trials.append(trial)
        self.by_id[trial.trial_id] = trial

    def run(self) -> Replay:
        """Apply the entries since the snapshot."""
        for entry in self.entries:
            kind = entry.get("e")
            if kind == "trial":
                self._take(trial_of(entry["id"], entry))
            trial = self.by_id.get(entry.get("id", ""))
            if trial is None or kind is None:
                continue
            apply = getattr(self, f"_on_{kind}", None)
            if apply is not None:
                apply(trial, entry)
            if self._witness is not None:
                self._witness(kind, trial, entry)
        return self

    # -- one method per kind of entry

    def _on_start(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.status = Trial.RUNNING

    def _on_pause(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.status = Trial.PAUSED

    def _on_result(self, trial: Trial, entry: dict[str, Any]) -> None:
        result = with_config(entry["r"], trial)
        trial.update_last_result(result)
        if entry.get("c"):
            self._keep(trial, entry["c"], result)

    def _on_saved(self, trial: Trial, entry: dict[str, Any]) -> None:
        self._keep(trial, entry["c"], {**trial.last_result, **entry["r"]})

    def _keep(self, trial: Trial, name: str, metrics: dict[str, Any]) -> None:
        index = int(name.rpartition("_")[2])
        trial.kept = [each for each in trial.kept if each.name != name] + [
            KeptCheckpoint(name, dict(metrics), index)
        ]
        trial.next_checkpoint = max(trial.next_checkpoint, index + 1)
        trial.source = None

    def _on_deleted(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.kept = [each for each in trial.kept if each.name != entry["c"]]

    def _on_error(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.num_failures += entry.get("counted", True)
        trial.error_text = entry["text"]
        if entry["again"]:
            trial.status = Trial.PENDING

    def _on_exploit(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.status = Trial.PAUSED
        if "config" in entry:
            trial.config = unpacked(entry["config"])
            trial.experiment_tag = entry["tag"]
        donor = self.by_id.get(entry["donor"])
        if entry.get("source") and donor is not None:
            at = next((each for each in donor.kept if each.name == entry["source"]), donor.latest)
            trial.source = None if at is None else source_of(donor, at)

    def _on_end(self, trial: Trial, entry: dict[str, Any]) -> None:
        trial.status = entry["s"]
        if trial.status == Trial.TERMINATED:
            found = dict(entry.get("last") or trial.last_result)
            trial.last_result = {
                **found,
                "done": True,
                "config": trial.config,
                "experiment_tag": trial.experiment_tag,
            }
