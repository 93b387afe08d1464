"""Rows of jobs: those that were submitted to the node, and the programs that run and belong to none of them; their output."""

from __future__ import annotations

import re
from typing import Any

from skate.job_submission.manager import JobLogTail, NoSuchJob, of_session
from skate.util.state.exception import RayStateApiException

Row = dict[str, Any]
#: The group of the outputs of jobs in lists of log files, and their names, as in Ray.
GROUP = "internal"
_FILE = re.compile(r"job-driver-(.+)\.log")


def with_submitted(drivers: list[Row]) -> list[Row]:
    """Return the rows of submitted jobs, and of the running programs that belong to none of them.

    Submitted jobs are in the journal of the node, and no process reports them. A session inside a program has none.
    """
    try:
        submitted = of_session().all_details()
    except ConnectionError:
        return drivers
    known = {each.job_id for each in submitted}
    rows = [{**each.dict(), "type": each.type.value, "status": each.status.value} for each in submitted]
    return rows + [row for row in drivers if row["job_id"] not in known]


def files() -> list[Row]:
    """Return one row for the output of each submitted job, with the id of its node and the name as `file`."""
    try:
        found = of_session().all_details()
    except ConnectionError:
        return []
    return [
        {"node_id": each.driver_node_id, "file": f"job-driver-{each.submission_id}.log"} for each in found
    ]


def submission_of(name: str) -> str | None:
    """Return the submission id of the job whose output has this name; None for the names of other files."""
    found = _FILE.fullmatch(name)
    return found[1] if found else None


class JobReader:
    """Reads the output of a submitted job.

    Args: job: its submission id.

    Raises RayStateApiException if there is no such job.
    """

    def __init__(self, job: str) -> None:
        try:
            self._tail: JobLogTail | None = of_session().follow(job)
        except (NoSuchJob, ConnectionError) as error:
            raise RayStateApiException(str(error)) from None

    def first(self, tail: int) -> str:
        """Return the last lines so far; all of them if `tail` is negative."""
        parts = []
        while text := self.more():
            parts.append(text)
        lines = "".join(parts).splitlines(keepends=True)
        return "".join(lines if tail < 0 else lines[-tail:] if tail else [])

    def more(self) -> str | None:
        """Return what is new; None if no more comes."""
        text = None if self._tail is None else self._tail.read()
        if text is None:
            self.close()
        return text

    def close(self) -> None:
        """Close the file."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
