"""The identity of code inside a training function or trial."""

from __future__ import annotations

import sys
from dataclasses import dataclass

#: Automatic entries of results that are not plotted.
BESIDE_METRICS = frozenset(("config", "pid", "timestamp", "time_total_s", "training_iteration"))


@dataclass(frozen=True)
class RunIdentity:
    """The position of the calling code: its rank (None outside of Train), and names for its run."""

    rank: int | None = None
    trial_id: str | None = None
    trial_name: str | None = None
    experiment: str | None = None


def run_identity() -> RunIdentity:
    """Return the position of the calling code; empty outside of training functions and trials."""
    sessions = sys.modules.get("skate.train.worker.session")
    if sessions is not None and sessions.active():
        from skate.train.worker.train_context import get_context  # loaded in every worker of Train

        context = get_context()
        name = context.get_experiment_name()
        return RunIdentity(rank=context.get_world_rank(), experiment=name, trial_name=name)
    tune = sys.modules.get("skate.tune")
    if tune is None:
        return RunIdentity()
    try:
        trial = tune.get_context()
        return RunIdentity(
            trial_id=trial.get_trial_id(),
            trial_name=trial.get_trial_name(),
            experiment=trial.get_experiment_name(),
        )
    except (AttributeError, RuntimeError):  # no trial runs here
        return RunIdentity()
