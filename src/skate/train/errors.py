"""Exceptions of training runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.exceptions import RayError


class RayTrainError(RayError):
    """The base class of errors of training runs."""


class TrainingFailedError(RayTrainError):
    """A run has failed permanently."""


class SessionMisuseError(Exception):
    """A function of a run was called outside of a run; Skate itself raises `RuntimeError`."""


class WorkerGroupError(TrainingFailedError):
    """Workers have failed; `worker_failures` has their exceptions by rank, in order of failure."""

    def __init__(self, error_message: str, worker_failures: dict[int, Exception]) -> None:
        super().__init__(error_message)
        self._error_message = error_message
        self.worker_failures = worker_failures

    def __reduce__(self) -> Any:
        return type(self), (self._error_message, self.worker_failures)


class NCCLHangError(WorkerGroupError):
    """Workers have failed because a collective operation did not complete."""


class ControllerError(TrainingFailedError):
    """The run could not be started or controlled; `controller_failure` is the cause, `doing` the step in progress."""

    def __init__(self, controller_failure: Exception, doing: str = "the run could not be controlled") -> None:
        super().__init__(f"{doing}: {type(controller_failure).__name__}: {controller_failure}")
        self.controller_failure = controller_failure
        self.doing = doing
        self.__cause__ = controller_failure

    def __reduce__(self) -> Any:
        return type(self), (self.controller_failure, self.doing)


@dataclass(frozen=True)
class PreemptionInfo:
    """Announced preemptions of nodes: `preempted_node_to_ranks` has the ranks on each, `deadline_ms` the time
    in epoch milliseconds."""

    deadline_ms: int | None
    preempted_node_to_ranks: dict[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The ids of the preempted nodes."""
        return list(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The ranks on the preempted nodes, in order."""
        return sorted(rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks)


class PreemptionError(TrainingFailedError):
    """Workers were lost with the nodes they ran on."""

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        where = "; ".join(
            f"node {node} with rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"
            for node, ranks in preemption_info.preempted_node_to_ranks.items()
        )
        super().__init__(
            f"nodes with workers were lost more often than FailureConfig(max_preemption_failures=...) allows: {where}"
        )
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> Any:
        return type(self), (self.preemption_info, self.drain_timed_out)
