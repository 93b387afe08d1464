"""The facts about a job, in Ray's shapes."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
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
        """Return True once the job has ended."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobErrorType(str, enum.Enum):
    """The kind of failure of a job. Its supervisor is the process that starts and watches the command."""

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(str, enum.Enum):
    """The origin of a job: submitted, or a driver that joined."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


@dataclass
class JobInfo:
    """The facts about a submitted job. Times are Unix timestamps in milliseconds."""

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: JobErrorType | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)
        if self.message is None:
            self.message = _MESSAGES[self.status]
            if self.status == JobStatus.PENDING:
                self.message += self._what_may_be_awaited()

    def _what_may_be_awaited(self) -> str:
        amounts = (self.entrypoint_num_cpus, self.entrypoint_num_gpus, self.entrypoint_memory)
        text = ""
        if any(amounts) or self.entrypoint_resources:
            text = (
                " It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available."
            )
        if self.runtime_env:
            text += " It may be waiting for the runtime environment to be set up."
        return text

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values; the runtime environment is a JSON text in it."""
        done = dataclasses.asdict(self)
        done["status"] = str(self.status)
        done["error_type"] = self.error_type.value if self.error_type else None
        runtime_env = done.pop("runtime_env")
        if runtime_env is not None:
            done["runtime_env_json"] = json.dumps(runtime_env)
        return done

    @classmethod
    def from_json(cls, json_dict: dict[str, Any]) -> JobInfo:
        """Return the facts in a dict that `to_json` has made."""
        given = dict(json_dict)
        given["error_type"] = JobErrorType(given["error_type"]) if given.get("error_type") else None
        text = given.pop("runtime_env_json", None)
        if text is not None:
            given["runtime_env"] = json.loads(text)
        return cls(**given)


_MESSAGES = {
    JobStatus.PENDING: "Job has not started yet.",
    JobStatus.RUNNING: "Job is currently running.",
    JobStatus.STOPPED: "Job was intentionally stopped.",
    JobStatus.SUCCEEDED: "Job finished successfully.",
    JobStatus.FAILED: "Job failed.",
}


class _Model:
    """Methods of a pydantic model that programs use."""

    def dict(self) -> dict[str, Any]:
        """Return the fields as a dict, with nested ones as dicts too."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    def json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(self.dict())

    model_dump = dict
    model_dump_json = json


@dataclass
class DriverInfo(_Model):
    """The last driver that a job has started: its job id, its node's IP address and its pid."""

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobDetails(_Model):
    """The facts about a job, submitted or not. Times are Unix timestamps in milliseconds."""

    type: JobType
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    status: JobStatus = JobStatus.PENDING
    entrypoint: str = ""
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.type = JobType(self.type)
        self.status = JobStatus(self.status)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> JobDetails:
        """Return the facts in a server's answer; unknown fields, of a later version, are left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in answer.items() if name in known}
        if isinstance(fields.get("driver_info"), Mapping):
            fields["driver_info"] = DriverInfo(**fields["driver_info"])
        return cls(**fields)
