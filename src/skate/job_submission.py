"""Jobs that are submitted to a cluster, which Skate does not have yet: the client says what to do instead."""

from __future__ import annotations

import enum
from typing import Any


class JobStatus(str, enum.Enum):
    """How far a job is."""

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
    """How a job came: submitted, or as a driver that joined."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


class JobSubmissionClient:
    """Raises NotImplementedError: a node here takes no jobs yet. Start the program itself, under `skate run`."""

    def __init__(
        self, address: str | None = None, create_cluster_if_needed: bool = False, **kwargs: Any
    ) -> None:
        raise NotImplementedError(
            f"JobSubmissionClient({address!r}): Skate has no job server yet. Start the program itself: `skate run program.py` "
            "hosts a session of its own, and with SKATE_ADDRESS=auto it joins the node that `skate start --head` has started"
        )
