"""Network setup for XGBoost workers: a tracker in the first one, and a communicator around the training function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from skate.train.backend import Backend, BackendConfig


@dataclass
class XGBoostConfig(BackendConfig):
    """The setup of the workers' collective operations.

    Args:
        xgboost_communicator: "rabit", the only one.

    Raises:
        ValueError: it is anything else.
    """

    xgboost_communicator: str = "rabit"

    def __post_init__(self) -> None:
        if self.xgboost_communicator != "rabit":
            raise ValueError(f'xgboost_communicator must be "rabit", got {self.xgboost_communicator!r}')

    @property
    def backend_cls(self) -> type[Backend]:
        return XGBoostBackend

    @property
    def preload(self) -> tuple[str, ...]:
        return ("xgboost",)

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[None]]:
        return _communicating


class XGBoostBackend(Backend):
    """Starts the tracker, and distributes its address."""

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        workers = len(worker_group)
        if workers > 1:
            given = worker_group.execute_single(0, _start_tracker, worker_group.where[0]["ip"], workers)
            worker_group.execute(_remember, given)


#: In a worker: the arguments of its communicator, and in the first worker the tracker, kept until the process ends.
_arguments: dict[str, Any] = {}
_tracker: list[Any] = []


def _start_tracker(address: str, workers: int) -> dict[str, Any]:
    from xgboost.tracker import RabitTracker  # in a worker, for the first time

    tracker = RabitTracker(n_workers=workers, host_ip=address, sortby="task")
    tracker.start()
    _tracker.append(tracker)
    return dict(tracker.worker_args())


def _remember(given: dict[str, Any]) -> None:
    _arguments.update(given)


@contextlib.contextmanager
def _communicating() -> Iterator[None]:
    """Connect collective operations of the calling thread to the other workers during the block."""
    if not _arguments:
        yield
        return
    from xgboost.collective import CommunicatorContext  # imported only if used

    from skate.train.worker.train_context import get_context  # only needed in workers

    # XGBoost's ranks equal those of the run, because the tracker sorts by these names.
    rank = get_context().get_world_rank()
    with CommunicatorContext(**_arguments, dmlc_task_id=f"{rank:08d}"):
        yield
