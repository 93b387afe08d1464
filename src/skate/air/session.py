"""Functions for a training function, in a trial of Tune or in a worker of Train."""

from __future__ import annotations

from typing import Any

import skate.train
from skate.train.worker import session as of_worker
from skate.tune.trainable import session as of_trial


def report(metrics: dict[str, Any], *, checkpoint: Any = None) -> None:
    """Report metrics, with a checkpoint if there is one."""
    if of_worker.active():
        skate.train.report(metrics, checkpoint=checkpoint)
    else:
        of_trial.report(metrics, checkpoint=checkpoint)


def get_checkpoint() -> Any:
    """Return the checkpoint to resume from; None at a first start."""
    return skate.train.get_checkpoint() if of_worker.active() else of_trial.get_checkpoint()


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Return this worker's part of a dataset of the run."""
    return skate.train.get_dataset_shard(dataset_name)


def _from_context(name: str, elsewhere: Any = None) -> Any:
    if of_worker.active():
        return getattr(skate.train.get_context(), name)()
    return getattr(of_trial.get_context(), name)() if of_trial.spec() is not None else elsewhere


def get_experiment_name() -> str | None:
    """Return the name of the search or run."""
    found: str | None = _from_context("get_experiment_name")
    return found


def get_trial_name() -> str | None:
    """Return the name of the trial; None outside of one."""
    found: str | None = None if of_worker.active() else _from_context("get_trial_name")
    return found


def get_trial_id() -> str | None:
    """Return the id of the trial; None outside of one."""
    found: str | None = None if of_worker.active() else _from_context("get_trial_id")
    return found


def get_trial_resources() -> Any:
    """Return the resources of the trial; None outside of one."""
    return None if of_worker.active() else _from_context("get_trial_resources")


def get_trial_dir() -> str | None:
    """Return the folder of the trial; None outside of one."""
    found: str | None = None if of_worker.active() else _from_context("get_trial_dir")
    return found


def get_world_size() -> int:
    """Return the number of workers of the run; 1 outside of one."""
    return int(_from_context("get_world_size", 1)) if of_worker.active() else 1


def get_world_rank() -> int:
    """Return the rank of this worker; 0 outside of a run."""
    return int(_from_context("get_world_rank", 0)) if of_worker.active() else 0


def get_local_rank() -> int:
    """Return the rank of this worker on its node; 0 outside of a run."""
    return int(_from_context("get_local_rank", 0)) if of_worker.active() else 0


def get_local_world_size() -> int:
    """Return the number of workers of the run on this node; 1 outside of one."""
    return int(_from_context("get_local_world_size", 1)) if of_worker.active() else 1


def get_node_rank() -> int:
    """Return the rank of this node in the run; 0 outside of one."""
    return int(_from_context("get_node_rank", 0)) if of_worker.active() else 0
