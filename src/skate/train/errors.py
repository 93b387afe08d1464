"""What a run of training raises."""

from __future__ import annotations

from typing import Any

from skate.exceptions import RayError


class TrainingFailedError(RayError):
    """A run has failed for good."""


class WorkerGroupError(TrainingFailedError):
    """Workers have failed; `worker_failures` has their exceptions by rank, the first to fail first."""

    def __init__(self, error_message: str, worker_failures: dict[int, Exception]) -> None:
        super().__init__(error_message)
        self._error_message = error_message
        self.worker_failures = worker_failures

    def __reduce__(self) -> Any:
        return type(self), (self._error_message, self.worker_failures)


class NCCLHangError(WorkerGroupError):
    """Workers have failed because a collective operation did not come to its end."""


class ControllerError(TrainingFailedError):
    """The run could not be started or steered; `controller_failure` says why."""

    def __init__(self, controller_failure: Exception) -> None:
        super().__init__(
            f"the run could not be steered: {type(controller_failure).__name__}: {controller_failure}"
        )
        self.controller_failure = controller_failure
        self.__cause__ = controller_failure

    def __reduce__(self) -> Any:
        return type(self), (self.controller_failure,)


class PreemptionInfo:
    """Which nodes go away when: `preempted_node_to_ranks` has the ranks on each, `deadline_ms` the time in epoch milliseconds."""

    def __init__(self, deadline_ms: int | None, preempted_node_to_ranks: dict[str, list[int]]) -> None:
        self.deadline_ms = deadline_ms
        self.preempted_node_to_ranks = preempted_node_to_ranks


class PreemptionError(TrainingFailedError):
    """Workers were lost with the nodes they ran on."""

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        super().__init__(f"nodes went away with workers on them: {preemption_info.preempted_node_to_ranks}")
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> Any:
        return type(self), (self.preemption_info, self.drain_timed_out)
