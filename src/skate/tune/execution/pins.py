"""Checkpoints from which other trials start: they are kept until those trials have their own."""

from __future__ import annotations

from skate.tune.experiment.trial import Trial

#: A checkpoint by the id of its trial and its name.
Key = tuple[str, str]


class CheckpointPins:
    """The checkpoints of other trials from which each trial starts."""

    def __init__(self) -> None:
        self._users: dict[Key, set[str]] = {}
        #: Checkpoints that would be deleted if no trial started from them.
        self.doomed: set[Key] = set()

    def pin(self, trial: Trial) -> None:
        """Pin the source of a trial that is about to start."""
        source = trial.source
        if source is not None and source.trial_id != trial.trial_id:
            self._users.setdefault((source.trial_id, source.name), set()).add(trial.trial_id)

    def unpin(self, trial: Trial) -> Key | None:
        """Release the trial's source; return its checkpoint if it can now be deleted."""
        source = trial.source
        if source is None or source.trial_id == trial.trial_id:
            return None
        key = (source.trial_id, source.name)
        users = self._users.get(key, set())
        users.discard(trial.trial_id)
        if users:
            return None
        self._users.pop(key, None)
        if key not in self.doomed:
            return None
        self.doomed.discard(key)
        return key

    def holds(self, key: Key) -> bool:
        """True if a trial starts from the checkpoint to be deleted; it is deleted once none does."""
        if self._users.get(key):
            self.doomed.add(key)
            return True
        return False
