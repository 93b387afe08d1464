"""Submission of jobs to a cluster, which Skate does not support yet: the client raises an error with the
alternative.
"""

from __future__ import annotations

import enum
from typing import Any


class JobStatus(str, enum.Enum):
    """The state of a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """True once the job has ended."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobType(str, enum.Enum):
    """The origin of a job: submitted, or a driver that joined."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


class JobSubmissionClient:
    """Raises NotImplementedError, because nodes do not accept jobs yet. Start the program itself with `skate run`."""

    def __init__(
        self, address: str | None = None, create_cluster_if_needed: bool = False, **kwargs: Any
    ) -> None:
        raise NotImplementedError(
            f"JobSubmissionClient({address!r}): Skate has no job server yet. Start the program "
            "itself: `skate run program.py` hosts its own session; with SKATE_ADDRESS=auto it joins "
            "the node started by `skate start --head`"
        )
