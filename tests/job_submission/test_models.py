"""The request for a job and the facts about one: checked, and in Ray's shapes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from skate.job_submission import JobDetails, JobErrorType, JobInfo, JobStatus, JobSubmissionClient, JobType
from skate.job_submission.request import JobSubmitRequest


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"entrypoint": 1}, TypeError, "entrypoint must be a string"),
        ({"entrypoint": " "}, ValueError, "shell command"),
        ({"submission_id": "../x"}, ValueError, "names files"),
        ({"submission_id": "x\n"}, ValueError, "names files"),
        ({"metadata": {"a": 1}}, TypeError, "metadata values must be a string"),
        ({"metadata": {"a": "x" * 70_000}}, ValueError, "metadata may have"),
        ({"runtime_env": []}, TypeError, "runtime_env must be a dict"),
        ({"entrypoint_num_cpus": "1"}, TypeError, "must be a number"),
        ({"entrypoint_num_gpus": -1}, ValueError, "must not be negative"),
        ({"entrypoint_num_cpus": float("nan")}, ValueError, "must not be negative"),
        ({"entrypoint_memory": 1.5}, TypeError, "must be an integer"),
        ({"entrypoint_resources": {"a": "1"}}, TypeError, "values must be a number"),
        ({"entrypoint_label_selector": {"a": 1}}, TypeError, "values must be a string"),
    ],
)
def test_invalid_requests(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        JobSubmitRequest(**{"entrypoint": "true", **fields})


def test_a_request_has_an_id_and_amounts() -> None:
    request = JobSubmitRequest(
        "true", job_id="mine", entrypoint_num_cpus=0, entrypoint_resources={"licence": 2}
    )
    assert request.submission_id == "mine" and request.resources() == {"licence": 2.0}
    assert (JobSubmitRequest("true").submission_id or "").startswith("raysubmit_")


def test_the_default_message_says_what_may_be_awaited() -> None:
    assert JobInfo(JobStatus.PENDING, "true").message == "Job has not started yet."
    waits = (
        JobInfo(JobStatus.PENDING, "true", entrypoint_num_cpus=1, runtime_env={"pip": ["x"]}).message or ""
    )
    assert "resources" in waits and "runtime environment" in waits
    info = JobInfo(
        JobStatus.FAILED, "false", error_type=JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR, runtime_env={"a": 1}
    )
    assert JobInfo.from_json(info.to_json()) == info


def test_details_come_from_an_answer_of_any_version() -> None:
    driver = {"id": "01", "node_ip_address": "::1", "pid": "7"}
    details = JobDetails.of(
        {"type": "SUBMISSION", "status": "RUNNING", "entrypoint": "true", "driver_info": driver, "new": 1}
    )
    assert (
        details.type is JobType.SUBMISSION
        and details.status is JobStatus.RUNNING
        and details.driver_info is not None
    )
    assert details.dict()["driver_info"] == driver and details.driver_info.pid == "7"
    assert len(details.dict()) == 15


def test_the_signatures_are_those_of_ray() -> None:
    submit = list(inspect.signature(JobSubmissionClient.submit_job).parameters)
    assert submit == [
        "self", "entrypoint", "job_id", "runtime_env", "metadata", "submission_id", "entrypoint_num_cpus", "entrypoint_num_gpus",
        "entrypoint_memory", "entrypoint_resources", "entrypoint_label_selector",
    ]  # fmt: skip
    made = list(inspect.signature(JobSubmissionClient.__init__).parameters)
    assert made[1:] == [
        "address",
        "create_cluster_if_needed",
        "cookies",
        "metadata",
        "headers",
        "verify",
        "kwargs",
    ]
    for name, value in (("address", 1), ("headers", []), ("verify", None), ("create_cluster_if_needed", 1)):
        with pytest.raises(TypeError, match=name):
            JobSubmissionClient(**{name: value})
