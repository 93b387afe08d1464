"""API of the training function: get_checkpoint, get_context, get_dataset_shard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.modes import CheckpointConsistencyMode
from skate.train.worker.session import Announced, Place, Session, active, current


class TrainContext:
    """The identity of this worker and its run."""

    def __init__(self, session: Session | None = None) -> None:
        self._session = session or current("TrainContext()")

    def get_experiment_name(self) -> str:
        """Return the name of the run."""
        return self._session.folder.name

    def get_world_size(self) -> int:
        """Return the current number of workers of the run."""
        return self._session.place.world_size

    def get_world_rank(self) -> int:
        """Return the rank of this worker, from 0."""
        return self._session.place.world_rank

    def get_local_rank(self) -> int:
        """Return the rank of this worker on its node, from 0."""
        return self._session.place.local_rank

    def get_local_world_size(self) -> int:
        """Return the number of workers on this worker's node."""
        return self._session.place.local_world_size

    def get_node_rank(self) -> int:
        """Return the rank of this worker's node among the nodes with workers, from 0."""
        return self._session.place.node_rank

    def get_storage(self) -> Any:
        """Return the storage of the run: an object with `path` and `filesystem`."""
        return self._session.folder

    def get_metadata(self) -> Any:
        """Rejected: pass metadata in `train_loop_config` or in a checkpoint."""
        raise DeprecationWarning(
            "get_metadata has been removed; pass values with train_loop_config, or Checkpoint.set_metadata"
        )

    def get_trial_name(self) -> Any:
        """Rejected: a run has no trials."""
        raise _no_trials("get_trial_name")

    def get_trial_id(self) -> Any:
        """Rejected: a run has no trials."""
        raise _no_trials("get_trial_id")

    def get_trial_resources(self) -> Any:
        """Rejected: a run has no trials."""
        raise _no_trials("get_trial_resources")

    def get_trial_dir(self) -> Any:
        """Rejected: a run has no trials."""
        raise _no_trials("get_trial_dir")

    def __repr__(self) -> str:
        place = self._session.place
        return (
            f"<TrainContext rank {place.world_rank} of {place.world_size} of {self._session.folder.name!r}>"
        )


def _no_trials(name: str) -> DeprecationWarning:
    return DeprecationWarning(
        f"{name} has been removed: a run of Train has no trials; use get_experiment_name and ranks"
    )


class DistributedTrainContext(TrainContext):
    """The context of a worker in its own process."""


class LocalTrainContext(TrainContext):
    """The context of a training function in its caller's process, including one started by torchrun or a test.

    Args:
        experiment_name: the name of the run.
        world_size, world_rank, local_rank, local_world_size, node_rank: the identity of the worker.
    """

    def __init__(
        self,
        experiment_name: str,
        world_size: int = 1,
        world_rank: int = 0,
        local_rank: int = 0,
        local_world_size: int = 1,
        node_rank: int = 0,
    ) -> None:
        self._name = experiment_name
        self._place = Place(world_rank, world_size, local_rank, local_world_size, node_rank)

    @property
    def _session(self) -> Any:  # type: ignore[override]  # it stands for one
        folder = current("get_storage()").folder if active() else None
        return SimpleNamespace(place=self._place, folder=SimpleNamespace(name=self._name), storage=folder)

    def get_storage(self) -> Any:
        """Return the storage of the run.

        Raises:
            NotImplementedError: there is no run.
        """
        found = self._session.storage
        if found is None:
            raise NotImplementedError("there is no run here, and therefore no storage")
        return found


def get_context() -> TrainContext:
    """Return the context of this worker.

    Raises:
        RuntimeError: called outside of the training function.
    """
    session = current("get_context()")
    if session.controlled:
        return DistributedTrainContext(session)
    place = session.place
    return LocalTrainContext(
        session.folder.name,
        place.world_size,
        place.world_rank,
        place.local_rank,
        place.local_world_size,
        place.node_rank,
    )


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint to resume from: the last one that all ranks have reported, None if there is none yet.

    Raises:
        RuntimeError: called outside of the training function.
    """
    return current("get_checkpoint()").latest


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[Any]:
    """Return the existing checkpoints of the run as `ReportedCheckpoint`s: oldest first, or worst first if they
    are ranked.

    Waits for uploads in progress, but not for other ranks.

    Args:
        consistency_mode: COMMITTED returns written checkpoints; VALIDATED waits for validations in progress as well.
        timeout_s: the timeout for those, in seconds; None for no limit.

    Raises:
        ValueError: the mode is unknown.
        RuntimeError: called outside of the training function.
    """
    session = current("get_all_reported_checkpoints()")
    if not isinstance(consistency_mode, CheckpointConsistencyMode):
        raise ValueError(
            f"Unexpected CheckpointConsistencyMode: {consistency_mode!r}; the modes are "
            f"{', '.join(map(str, CheckpointConsistencyMode))}"
        )
    session.await_background()
    if consistency_mode is CheckpointConsistencyMode.VALIDATED and session.controlled:
        number = session.next_number("question")
        session.send("sync", "question", number, timeout_s)
        return list(session.await_release("question", number))
    return list(session.checkpoints)


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Return this worker's part of a dataset of the trainer, as a `DataIterator`.

    Args:
        dataset_name: its key in `datasets={...}`; "train" by default.

    Raises:
        KeyError: there is no dataset of that name; the message lists the names.
        RuntimeError: called outside of the training function.
    """
    session = current("get_dataset_shard()")
    name = "train" if dataset_name is None else dataset_name
    if name not in session.shards:
        names = ", ".join(map(repr, session.shards)) or "none"
        raise KeyError(
            f"Dataset shard for {name!r} not found. The trainer was given datasets={{...}} of: {names}"
        )
    return session.shards[name]


def get_preemption_info() -> Any:
    """Return a `PreemptionInfo` about nodes with workers that drain, or None while there are none.

    A sync point of all workers: each has to call it as often as the others.
    """
    session = current("get_preemption_info()")
    if not session.controlled:
        return None
    number = session.next_number("collective")
    session.send("sync", "collective", number, Announced())
    return session.await_release("collective", number)
