"""Jobs of a node on this machine, for a client without HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from skate.client.session.node_access import SCHEME
from skate.job_submission.manager import JobManager, status_of
from skate.job_submission.models import JobDetails
from skate.job_submission.request import JobSubmitRequest
from skate.job_submission.uploads import pieces
from skate.version import RAY_VERSION

#: How often a followed log is looked at.
LOOK_SECONDS = 0.05


class LocalJobs:
    """The jobs of a node, reached by its folder. Raises what a server would answer as RuntimeError.

    Args:
        path: the node's socket.
    """

    def __init__(self, path: str) -> None:
        self._manager = JobManager(path)
        self.address = SCHEME + path
        self.version = "4"
        self.ray_version = RAY_VERSION

    def submit(self, request: dict[str, Any]) -> str:
        """Start a job and return its id."""
        with _answered():
            return self._manager.submit(JobSubmitRequest(**request))

    def stop(self, job: str) -> bool:
        """Ask a job to end; return False if it has ended already."""
        with _answered():
            return self._manager.stop(self._manager.id_of(job))

    def delete(self, job: str) -> bool:
        """Forget a job that has ended."""
        with _answered():
            return self._manager.delete(self._manager.id_of(job))

    def details(self, job: str) -> JobDetails:
        """Return the facts about a job."""
        with _answered():
            return self._manager.details(job)

    def all_details(self) -> list[JobDetails]:
        """Return the facts about all jobs."""
        return self._manager.all_details()

    def log(self, job: str) -> str:
        """Return the output of a job."""
        with _answered():
            return self._manager.log(job)

    async def follow(self, job: str) -> AsyncIterator[str]:
        """Yield the output of a job as it comes."""
        with _answered():
            tail = self._manager.follow(job)
        try:
            while (text := tail.read()) is not None:
                if text:
                    yield text
                else:
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            tail.close()

    def exists(self, name: str) -> bool:
        """Return True if a package is there."""
        return self._manager.packages.exists(name)

    def put(self, name: str, file: Path) -> None:
        """Store a package."""
        self._manager.packages.put(name, pieces(file))


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """Raise the errors of the manager as a client of a server sees them."""
    try:
        yield
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        raise RuntimeError(f"Request failed with status code {status_of(error)}: {error}.") from error
