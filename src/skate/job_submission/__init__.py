"""Submission of programs to a node that stays: a job runs a shell command there, and its state and output outlive the client."""

from __future__ import annotations

from skate import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    globals(),
    {
        "skate.job_submission.client": ("JobSubmissionClient",),
        "skate.job_submission.models": (
            "DriverInfo", "JobDetails", "JobErrorType", "JobInfo", "JobStatus", "JobType",
        ),
    },
)  # fmt: skip
