"""What the training function may call: report, get_checkpoint, get_context, get_dataset_shard, and the meetings of all ranks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.modes import CheckpointConsistencyMode, CheckpointUploadMode
from skate.train.worker.session import Reported, Session, current


class TrainContext:
    """Who this worker is, and which run it belongs to."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_experiment_name(self) -> str:
        """The name of the run."""
        return self._session.folder.name

    def get_world_size(self) -> int:
        """How many workers the run has now."""
        return self._session.place.world_size

    def get_world_rank(self) -> int:
        """The number of this worker among all, from 0."""
        return self._session.place.world_rank

    def get_local_rank(self) -> int:
        """The number of this worker among those on its node, from 0."""
        return self._session.place.local_rank

    def get_local_world_size(self) -> int:
        """How many workers are on this worker's node."""
        return self._session.place.local_world_size

    def get_node_rank(self) -> int:
        """The number of this worker's node among those that have workers, from 0."""
        return self._session.place.node_rank

    def get_storage(self) -> Any:
        """Where the run keeps what it makes: an object with `path` and `filesystem`."""
        return self._session.folder

    def get_metadata(self) -> Any:
        """Refused: metadata goes into `train_loop_config`, or into a checkpoint."""
        raise DeprecationWarning(
            "get_metadata is no longer there; pass values with train_loop_config, or Checkpoint.set_metadata"
        )

    def get_trial_name(self) -> Any:
        """Refused: a run has no trials."""
        raise _no_trials("get_trial_name")

    def get_trial_id(self) -> Any:
        """Refused: a run has no trials."""
        raise _no_trials("get_trial_id")

    def get_trial_resources(self) -> Any:
        """Refused: a run has no trials."""
        raise _no_trials("get_trial_resources")

    def get_trial_dir(self) -> Any:
        """Refused: a run has no trials."""
        raise _no_trials("get_trial_dir")

    def __repr__(self) -> str:
        place = self._session.place
        return (
            f"<TrainContext rank {place.world_rank} of {place.world_size} of {self._session.folder.name!r}>"
        )


def _no_trials(name: str) -> DeprecationWarning:
    return DeprecationWarning(
        f"{name} is no longer there: a run of Train has no trials; use get_experiment_name and ranks"
    )


def get_context() -> TrainContext:
    """Who this worker is.

    Raises:
        RuntimeError: this is not the training function.
    """
    return TrainContext(current("get_context()"))


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint to go on from: the last one that all ranks have reported, None if there is none yet.

    Raises:
        RuntimeError: this is not the training function.
    """
    return current("get_checkpoint()").latest


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[Any]:
    """The checkpoints of the run that are still there, oldest first, as `ReportedCheckpoint`s.

    Args:
        consistency_mode: COMMITTED gives those that are written; VALIDATED waits for validations under way as well.
        timeout_s: how long it waits for those, in seconds; None for as long as it takes.

    Raises:
        RuntimeError: this is not the training function.
    """
    session = current("get_all_reported_checkpoints()")
    if consistency_mode is CheckpointConsistencyMode.VALIDATED and session.controlled:
        number = session.next_number("collective")
        session.tell("came", "collective", number, ("checkpoints", timeout_s))
        return list(session.await_release("collective", number))
    return list(session.checkpoints)


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """This worker's part of a dataset that was given to the trainer, as a `DataIterator`.

    Args:
        dataset_name: its key in `datasets={...}`; "train" if left out.

    Raises:
        KeyError: there is no dataset of that name; those that there are are named.
        RuntimeError: this is not the training function.
    """
    session = current("get_dataset_shard()")
    name = "train" if dataset_name is None else dataset_name
    if name not in session.shards:
        there = ", ".join(map(repr, session.shards)) or "none"
        raise KeyError(f"no dataset {name!r} was given to the trainer; datasets={{...}} has: {there}")
    return session.shards[name]


def get_preemption_info() -> Any:
    """What is known of nodes that are about to go away; None as long as none is."""
    current("get_preemption_info()")
    return None


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: Any = False,
) -> None:
    """Tell how training goes, with a checkpoint if there is one; all ranks must call it equally often.

    It returns once all ranks have come to it and the checkpoint is written (ASYNC: at once, the rest follows in the background).

    Args:
        metrics: what rank 0 gives is the run's; JSON must be able to hold it.
        checkpoint: files of this rank; those of all ranks make one checkpoint.
        checkpoint_dir_name: name of the checkpoint in the run's folder, the same on all ranks.
        checkpoint_upload_mode: SYNC, ASYNC or NO_UPLOAD (the files are in the storage already).
        delete_local_checkpoint_after_upload: whether the local folder goes once its files are written; by default with ASYNC.
        checkpoint_upload_fn: writes the files itself: (checkpoint, name) -> the checkpoint where it is now.
        validation: True or a `ValidationTaskConfig` to have the trainer's validation function look at the checkpoint.

    Raises:
        TypeError: metrics is not a dict, or has a value that JSON cannot hold (its key is named).
        RuntimeError: this is not the training function.
    """
    session = current("report()")
    checked = _checked(metrics)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint is a ray.train.Checkpoint, not {type(checkpoint).__name__}; "
            "make one of a folder: Checkpoint.from_directory(folder)"
        )
    mode = CheckpointUploadMode(checkpoint_upload_mode)
    session.settle_uploads(wait=False)
    number = session.next_number("report")
    name = checkpoint_dir_name or f"checkpoint_{session.stamp}_{number:06d}"
    if checkpoint is None:
        session.tell("came", "report", number, Reported(checked, validation=validation))
        session.await_release("report", number)
        return
    drop = delete_local_checkpoint_after_upload
    if drop is None:
        drop = mode is CheckpointUploadMode.ASYNC

    def work() -> None:
        started = time.perf_counter()
        elsewhere = None
        if checkpoint_upload_fn is not None:
            elsewhere = checkpoint_upload_fn(checkpoint, name)
            if not isinstance(elsewhere, Checkpoint):
                raise TypeError(
                    f"checkpoint_upload_fn returns the Checkpoint it has written, not {elsewhere!r:.80}"
                )
        elif mode is CheckpointUploadMode.NO_UPLOAD:
            elsewhere = checkpoint
        else:
            session.folder.upload(checkpoint, name)
        if drop and elsewhere is not checkpoint:
            shutil.rmtree(checkpoint.path, ignore_errors=True)
        spent = time.perf_counter() - started
        session.tell("came", "report", number, Reported(checked, name, elsewhere, validation, spent))

    if mode is CheckpointUploadMode.ASYNC:
        session.upload_later(work)
        return
    session.settle_uploads(wait=True)  # so that reports are told in their order
    work()
    session.await_release("report", number)


def _checked(metrics: Any) -> dict[str, Any]:
    if not isinstance(metrics, dict):
        raise TypeError(
            f"metrics is a dict of names to values, such as {{'loss': 0.5}}, not {type(metrics).__name__}"
        )
    return {_name(key): _as_plain(value, str(key)) for key, value in metrics.items()}


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"metrics are named by strings, not {key!r} ({type(key).__name__})")
    return key


def _as_plain(value: Any, at: str) -> Any:
    """A value as JSON can hold it; numbers of numpy and torch become Python's."""
    if isinstance(value, dict):
        return {_name(key): _as_plain(each, f"{at}/{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_plain(each, f"{at}[{index}]") for index, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(
        f"metric {at!r} is a {type(value).__name__} ({value!r:.80}), which a report cannot hold; report numbers, strings, lists "
        "and dicts of them, and put objects into the checkpoint"
    )
