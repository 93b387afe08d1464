"""``skate job``: submits commands to a node or a server, and looks at them; the arguments and exit codes are Ray's."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pprint
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from skate.command.session import add_ray_logging
from skate.exceptions import AuthenticationError
from skate.installed import require
from skate.job_submission.client import JobSubmissionClient
from skate.job_submission.models import JobStatus
from skate.runtime_env import hooks

SUMMARY = "submit a command to a node that stays: submit, status, logs, stop, list, delete"
LOOK_SECONDS = 1.0
ADDRESS_HELP = (
    "http://host:8265 of a server; by default RAY_API_SERVER_ADDRESS or RAY_ADDRESS, or this user's own node, without a "
    "server"
)


def main(arguments: Sequence[str]) -> int:
    """Do what a subcommand says; return 0, or 1 if that or the job has failed."""
    given = parser().parse_args(_with_command_apart(list(arguments)))
    try:
        headers = _object(given.headers, "--headers")
        if headers is None:
            headers = _object(os.environ.get("RAY_JOB_HEADERS"), "RAY_JOB_HEADERS")
        if given.run is submit and "RAY_JOB_SUBMIT_HOOK" in os.environ:
            _call_hook(os.environ["RAY_JOB_SUBMIT_HOOK"], given)
        client = JobSubmissionClient(
            given.address, create_cluster_if_needed=True, headers=headers, verify=_verify(given.verify)
        )
        return int(given.run(client, given))
    except (ConnectionError, RuntimeError, ValueError, TypeError, OSError, AuthenticationError) as error:
        print(f"skate job {given.verb}: {error}", file=sys.stderr)
        return 1


def submit(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Start a job, and follow its output unless that is unwanted."""
    job = client.submit_job(
        entrypoint=shlex.join(given.entrypoint),
        submission_id=given.submission_id or given.job_id,
        runtime_env=_runtime_env(given),
        metadata=_object(given.metadata_json, "--metadata-json"),
        entrypoint_num_cpus=given.entrypoint_num_cpus,
        entrypoint_num_gpus=given.entrypoint_num_gpus,
        entrypoint_memory=given.entrypoint_memory,
        entrypoint_resources=_object(given.entrypoint_resources, "--entrypoint-resources"),
        entrypoint_label_selector=_object(given.entrypoint_label_selector, "--entrypoint-label-selector"),
    )
    _say_in_lines(f"Job '{job}' submitted successfully")
    print(
        f"Next steps\n  Query the logs of the job:\n    skate job logs {job}\n  Query the status of the job:\n"
        f"    skate job status {job}\n  Request the job to be stopped:\n    skate job stop {job}\n",
        flush=True,
    )
    if given.no_wait:
        return 0
    print("Tailing logs until the job exits (disable with --no-wait):", flush=True)
    return int(_follow(client, job) == JobStatus.FAILED)


def _call_hook(path: str, given: argparse.Namespace) -> None:
    """Call a function of the user's with what is submitted; it may raise, or end the process, to prevent that."""
    job = given.submission_id or given.job_id
    hooks.named(path)(
        address=given.address,
        job_id=job,
        submission_id=job,
        runtime_env=given.runtime_env,
        runtime_env_json=given.runtime_env_json,
        metadata_json=_object(given.metadata_json, "--metadata-json"),
        working_dir=given.working_dir,
        entrypoint=tuple(given.entrypoint),
        entrypoint_num_cpus=given.entrypoint_num_cpus,
        entrypoint_num_gpus=given.entrypoint_num_gpus,
        entrypoint_memory=given.entrypoint_memory,
        entrypoint_resources=_object(given.entrypoint_resources, "--entrypoint-resources"),
        entrypoint_label_selector=_object(given.entrypoint_label_selector, "--entrypoint-label-selector"),
        no_wait=given.no_wait,
    )


def status(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Print the status of a job."""
    _print_status(client, given.job)
    return 0


def logs(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Print the output of a job."""
    if given.follow:
        _follow(client, given.job)
    else:
        print(client.get_job_logs(given.job), end="")
    return 0


def stop(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Ask a job to end, and wait for that unless it is unwanted."""
    print(f"Attempting to stop job '{given.job}'")
    client.stop_job(given.job)
    if given.no_wait:
        return 0
    print(f"Waiting for job '{given.job}' to exit (disable with --no-wait):", flush=True)
    begun = reported = time.monotonic()
    while not (found := client.get_job_status(given.job)).is_terminal():
        now = time.monotonic()
        if now - reported > LOOK_SECONDS:
            reported = now
            print(f"Job has not exited yet. Status: {found}", flush=True)
        time.sleep(0.05 if now - begun < LOOK_SECONDS else 0.5)
    _print_status(client, given.job)
    return 0


def delete(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Forget a job that has ended."""
    client.delete_job(given.job)
    print(f"Job '{given.job}' deleted successfully")
    return 0


def list_jobs(client: JobSubmissionClient, given: argparse.Namespace) -> int:
    """Print all jobs."""
    print(pprint.pformat(client.list_jobs()))
    return 0


def _follow(client: JobSubmissionClient, job: str) -> JobStatus:
    async def copy() -> None:
        async for text in client.tail_job_logs(job):
            print(text, end="", flush=True)

    asyncio.run(copy())
    return _print_status(client, job)


def _print_status(client: JobSubmissionClient, job: str) -> JobStatus:
    found = client.get_job_info(job)
    if found.status == JobStatus.SUCCEEDED:
        _say_in_lines(f"Job '{job}' succeeded")
    elif found.status == JobStatus.STOPPED:
        print(f"Job '{job}' was stopped")
    elif found.status == JobStatus.FAILED:
        _say_in_lines(f"Job '{job}' failed")
    else:
        print(f"Status for job '{job}': {found.status}")
    if found.message is not None and found.status in (JobStatus.FAILED, JobStatus.PENDING, JobStatus.RUNNING):
        print(f"Status message: {found.message}")
    return found.status


def _say_in_lines(text: str) -> None:
    line = "-" * len(text)
    print(f"\n{line}\n{text}\n{line}\n", flush=True)


def _runtime_env(given: argparse.Namespace) -> dict[str, Any]:
    if given.runtime_env and given.runtime_env_json:
        raise ValueError("Only one of --runtime-env and --runtime-env-json can be provided.")
    env: dict[str, Any] = {}
    if given.runtime_env:
        yaml = require("yaml", "--runtime-env", "pyyaml")
        with open(given.runtime_env) as file:
            env = yaml.safe_load(file) or {}
    elif given.runtime_env_json:
        env = _object(given.runtime_env_json, "--runtime-env-json") or {}
    if given.working_dir:
        env["working_dir"] = given.working_dir
    return env


def _object(text: str | None, flag: str) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {text!r} is not a valid JSON string ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{flag} must be a JSON object, got {text!r}")
    return found


def _verify(text: str) -> str | bool:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


def _with_command_apart(words: list[str]) -> list[str]:
    """Keep the options of the command from the parser, also where `--` is left out."""
    if words[:1] == ["submit"] and "--" not in words:
        at = 1
        takes_value = {name for name, action in _submit_options().items() if action.nargs is None}
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in takes_value else 1
        words.insert(at, "--")
    return words


def _submit_options() -> dict[str, argparse.Action]:
    made = argparse.ArgumentParser()
    _add_submit_options(made)
    return {name: action for action in made._actions for name in action.option_strings}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="skate job", description=SUMMARY)
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    one = verbs.add_parser("submit", help="run a shell command as a job", allow_abbrev=False)
    _add_submit_options(one)
    one.add_argument("entrypoint", nargs="+", help="the command, after --")
    one.set_defaults(run=submit)
    for name, run, text in (
        ("status", status, "print the status of a job"),
        ("logs", logs, "print the output of a job"),
        ("stop", stop, "ask a job to end"),
        ("delete", delete, "forget a job that has ended"),
        ("list", list_jobs, "print all jobs"),
    ):
        one = verbs.add_parser(name, help=text)
        _add_common_options(one)
        one.set_defaults(run=run)
        if name != "list":
            one.add_argument("job", metavar="job-id")
        if name == "logs":
            one.add_argument(
                "-f", "--follow", action="store_true", help="print what comes until the job has ended"
            )
        if name == "stop":
            one.add_argument("--no-wait", action="store_true", help="do not wait for its end")
    return made


def _add_submit_options(one: argparse.ArgumentParser) -> None:
    _add_common_options(one)
    one.add_argument("--submission-id", help="the id of the job; by default a random one")
    one.add_argument("--job-id", help=argparse.SUPPRESS)
    one.add_argument("--runtime-env", metavar="FILE", help="YAML file with the runtime environment")
    one.add_argument("--runtime-env-json", metavar="JSON", help="the runtime environment")
    one.add_argument("--working-dir", help="the folder of the job, uploaded, or a URI of a .zip file")
    one.add_argument("--metadata-json", metavar="JSON", help="texts by name, kept with the job")
    one.add_argument("--entrypoint-num-cpus", type=float, help="CPUs to reserve for the command")
    one.add_argument("--entrypoint-num-gpus", type=float, help="GPUs to reserve for the command")
    one.add_argument("--entrypoint-memory", type=int, help="bytes of memory to reserve for the command")
    one.add_argument(
        "--entrypoint-resources", metavar="JSON", help="custom resources to reserve for the command"
    )
    one.add_argument(
        "--entrypoint-label-selector", metavar="JSON", help="conditions for the labels of the node"
    )
    one.add_argument("--no-wait", action="store_true", help="do not follow the output")


def _add_common_options(one: argparse.ArgumentParser) -> None:
    add_ray_logging(one)
    one.add_argument("--address", help=ADDRESS_HELP)
    one.add_argument("--headers", metavar="JSON", help="headers of each request to a server")
    one.add_argument(
        "--verify", default="true", help="true, false, or the file or folder of trusted certificates"
    )
