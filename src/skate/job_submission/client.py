"""JobSubmissionClient, with Ray's methods: for a node on this machine without HTTP, and for any job server by its URL."""

from __future__ import annotations

import copy
import importlib
import os
import warnings
from collections.abc import AsyncIterator
from typing import Any

from skate.client.session import node_access as places
from skate.client.session import session
from skate.job_submission.local import LocalJobs
from skate.job_submission.models import JobDetails, JobStatus
from skate.job_submission.remote import RemoteJobs
from skate.job_submission.uploads import with_uploads
from skate.runtime_env.prepare import validate


class JobSubmissionClient:
    """Submits jobs and looks at them.

    Args:
        address: "http://host:8265", the server of a cluster; or "auto", "skate://..." or nothing, a node of this user on this
            machine, which needs no server. RAY_API_SERVER_ADDRESS, and after it RAY_ADDRESS, override it.
        create_cluster_if_needed: accepted for compatibility.
        cookies, headers: sent with each HTTP request. A token goes into the header Authorization; by default it is that of
            RAY_AUTH_TOKEN or of the file RAY_AUTH_TOKEN_PATH.
        metadata: added to the metadata of each job.
        verify: False to accept any certificate of the server, or the file or folder of trusted ones.

    Raises:
        ConnectionError: there is no node or server. AuthenticationError: the server wants another token.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool | None = True,
        **kwargs: Any,
    ) -> None:
        _check("address", address, str | None, "a string")
        _check("create_cluster_if_needed", create_cluster_if_needed, bool, "a bool")
        for name, value in (("cookies", cookies), ("metadata", metadata), ("headers", headers)):
            _check(name, value, dict | None, "a dict")
        _check("verify", verify, str | bool, "a str or bool")
        self._default_metadata = metadata or {}
        self._jobs: LocalJobs | RemoteJobs
        wanted = os.environ.get("RAY_API_SERVER_ADDRESS") or places.given_address(None) or address
        path = _local_path(wanted)
        if path is not None:
            self._jobs = LocalJobs(path)
            return
        assert wanted is not None
        scheme = wanted.partition("://")[0] if "://" in wanted else "http"
        url = wanted if "://" in wanted else f"http://{wanted}"
        if scheme not in ("http", "https"):
            facts = _facts_of_provider(
                scheme, url, create_cluster_if_needed, cookies, metadata, headers, kwargs
            )
            url, cookies, headers = facts.address, facts.cookies, facts.headers
            self._default_metadata = facts.metadata or {}
        self._jobs = RemoteJobs(url, cookies, headers, verify)

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Start a job, and return its id without waiting for its end.

        Args:
            entrypoint: the shell command.
            runtime_env: the environment of the command and of its tasks; local folders are uploaded.
            metadata: texts by name, kept with the job.
            submission_id: the id; by default a random one.
            job_id: its older name.
            entrypoint_num_cpus, entrypoint_num_gpus, entrypoint_memory, entrypoint_resources: reserved for the command,
                besides what its tasks and actors use.
            entrypoint_label_selector: conditions for the labels of the node.

        Raises:
            RuntimeError: the server has refused, for example because the id is taken.
        """
        if job_id:
            warnings.warn("job_id is the older name of submission_id", DeprecationWarning, stacklevel=2)
        env = copy.copy(runtime_env or {})
        hook = env.get("worker_process_setup_hook")
        if hook and not isinstance(hook, str):
            raise ValueError(
                f"Invalid type {type(hook)} for `worker_process_setup_hook`: a submitted job takes only the name of a function; "
                "pass the function itself to init() in the program"
            )
        env = validate(with_uploads(env, self._jobs), where="submit_job()")
        return self._jobs.submit(
            {
                "entrypoint": entrypoint,
                "submission_id": submission_id or job_id,
                "runtime_env": env,
                "metadata": {**(metadata or {}), **self._default_metadata},
                "entrypoint_num_cpus": entrypoint_num_cpus,
                "entrypoint_num_gpus": entrypoint_num_gpus,
                "entrypoint_memory": entrypoint_memory,
                "entrypoint_resources": entrypoint_resources,
                "entrypoint_label_selector": entrypoint_label_selector,
            }
        )

    def stop_job(self, job_id: str) -> bool:
        """Ask a job to end: SIGTERM, then SIGKILL after 3 s. Return False if it has ended already."""
        return self._jobs.stop(job_id)

    def delete_job(self, job_id: str) -> bool:
        """Forget a job that has ended; its log stays. Raises RuntimeError for one that still runs."""
        return self._jobs.delete(job_id)

    def get_job_info(self, job_id: str) -> JobDetails:
        """Return the facts about a job."""
        return self._jobs.details(job_id)

    def list_jobs(self) -> list[JobDetails]:
        """Return the facts about all jobs, those that have ended too."""
        return self._jobs.all_details()

    def get_job_status(self, job_id: str) -> JobStatus:
        """Return the status of a job."""
        return self.get_job_info(job_id).status

    def get_job_logs(self, job_id: str) -> str:
        """Return the output of a job."""
        return self._jobs.log(job_id)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Yield the output of a job as it comes, until the job has ended."""
        async for text in self._jobs.follow(job_id):
            yield text

    def get_address(self) -> str:
        """Return the address of the server, or of the node."""
        return self._jobs.address

    def get_version(self) -> str:
        """Return the version of the interface."""
        return self._jobs.version


def _local_path(wanted: str | None) -> str | None:
    """Return the socket of the node that an address means, or None if it means a server.

    Raises ConnectionError if there is no such node.
    """
    if not wanted and session.is_initialized() and session.address_of_node():
        wanted = session.address_of_node()
    if wanted in (None, "", "auto", "local"):
        return places.find(places.directory())
    assert wanted is not None
    if wanted.startswith("ray://"):
        raise ConnectionError(
            f"{wanted} is an address of Ray Client; jobs are submitted to the server: http://<host>:8265"
        )
    return places.to_path(wanted)


def _facts_of_provider(
    scheme: str, url: str, create: bool, cookies: Any, metadata: Any, headers: Any, more: dict[str, Any]
) -> Any:
    """Return where and how to reach a cluster of another provider, from its module, as Ray does."""
    try:
        module = importlib.import_module(scheme)  # such as anyscale
    except ImportError:
        raise RuntimeError(
            f"Module: {scheme} does not exist.\nThis module was parsed from address: {url}"
        ) from None
    return module.get_job_submission_client_cluster_info(
        url.partition("://")[2],
        create_cluster_if_needed=create,
        cookies=cookies,
        metadata=metadata,
        headers=headers,
        **more,
    )


def _check(name: str, value: object, kind: Any, words: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {words}, got {type(value)}")
