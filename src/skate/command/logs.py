"""``skate logs``: what workers print, by node, actor, job, task or worker."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from skate.command.session import add_options, run_in
from skate.command.state.row_formats import yaml_text
from skate.util.state.common import DEFAULT_LOG_LIMIT, DEFAULT_RPC_TIMEOUT
from skate.util.state.logs import get_log, list_logs

SUMMARY = "print what a worker, an actor, a task or a job has printed, and follow it"
TOPICS = ("cluster", "actor", "job", "task", "worker")


def main(arguments: Sequence[str]) -> int:
    """Print names or lines and return 0; 1 if there is no session, 2 if it has no such output."""
    words = list(arguments)
    if not words or words[0] not in (*TOPICS, "-h", "--help"):
        words.insert(0, "cluster")  # the name of the topic may be left out
    parser = _parser()
    given = parser.parse_args(words)
    if given.topic == "actor" and given.id is None and given.of_pid is None:
        parser.error("logs actor: name the actor by --id or --pid")

    if given.topic == "job" and given.follow:
        from skate.command import job  # knows how to follow a job

        where = [] if given.address is None else ["--address", given.address]
        return job.main(["logs", *where, "--follow", given.id])

    def act(address: str | None) -> None:
        if given.topic == "job":
            print(_of_job(given, address), end="")
            return
        how = _selection(given)
        if given.topic == "cluster":
            names = _names(given, address)
            found = [name for group in names.values() for name in group]
            if len(found) != 1:
                print(f"---\n{yaml_text(names)}\n...\n")
                return
            how["filename"] = found[0]
        if given.tail > 0:
            print(
                f"--- Log has been truncated to last {given.tail} lines. Use `--tail` flag to toggle. Set to -1 for getting the "
                "entire file. ---\n"
            )
        for text in get_log(
            address=address, follow=given.follow, tail=given.tail, timeout=given.timeout, **how
        ):
            print(text, end="", flush=True)

    try:
        return run_in(given, act)
    except KeyboardInterrupt:  # the usual end of --follow
        return 0


def _of_job(given: argparse.Namespace, address: str | None) -> str:
    from skate.job_submission import JobSubmissionClient  # only for jobs

    lines = JobSubmissionClient(address).get_job_logs(given.id).splitlines(keepends=True)
    return "".join(lines if given.tail < 0 else lines[-given.tail :] if given.tail else [])


def _names(given: argparse.Namespace, address: str | None) -> dict[str, list[str]]:
    return list_logs(address, given.node_id, given.node_ip, given.glob, given.timeout)


def _selection(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `get_log` that select the output."""
    how: dict[str, Any] = {"_interval": given.interval, "node_id": given.node_id, "node_ip": given.node_ip}
    if given.topic != "cluster":
        how["suffix"] = "err" if given.err else given.suffix
    if given.topic == "task":
        return {**how, "task_id": given.id, "attempt_number": given.attempt_number}
    if given.topic == "actor" and given.id is not None:
        return {**how, "actor_id": given.id}
    if given.topic in ("actor", "worker"):
        return {**how, "pid": given.of_pid}
    return how


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skate logs", description=SUMMARY)
    topics = parser.add_subparsers(dest="topic", metavar="{cluster,actor,job,task,worker}")
    cluster = _topic(
        topics, "cluster", "the streams of a node, or the lines of the one that a pattern matches"
    )
    cluster.add_argument("glob", nargs="?", default="*", help="a pattern of names, such as 'worker-*'")
    actor = _topic(topics, "actor", "an actor")
    actor.add_argument("--id", "-a", help="the id of the actor")
    task = _topic(topics, "task", "one task: only its own lines")
    task.add_argument("--id", required=True, help="the id of the task")
    task.add_argument("--attempt-number", "-a", type=int, default=0, help="the attempt; default: %(default)s")
    job = _topic(topics, "job", "the entrypoint of a job")
    job.add_argument("--id", required=True, help="the submission id of the job")
    worker = _topic(topics, "worker", "a worker process")
    for each in (actor, worker):
        each.add_argument(
            "--pid", "-pid", dest="of_pid", type=int, required=each is worker, help="the pid of the process"
        )
    for each in (actor, task, worker):
        each.add_argument(
            "--err", action="store_true", help="its standard error instead of its standard output"
        )
        each.add_argument(
            "--suffix", default="out", choices=("out", "err"), help="the stream; default: %(default)s"
        )
    return parser


def _topic(topics: Any, name: str, text: str) -> argparse.ArgumentParser:
    topic: argparse.ArgumentParser = topics.add_parser(name, help=text, description=text)
    add_options(topic, url=True, pid=name not in ("actor", "worker"))
    topic.add_argument("--follow", "-f", action="store_true", help="print new lines as they come")
    topic.add_argument(
        "--tail", type=int, default=DEFAULT_LOG_LIMIT, help="the most lines, -1 for all; default: %(default)s"
    )
    topic.add_argument(
        "--interval", type=float, metavar="SECONDS", help="how often --follow looks for new lines"
    )
    topic.add_argument(
        "--timeout", type=float, default=DEFAULT_RPC_TIMEOUT, help="seconds to wait for an answer"
    )
    topic.add_argument("--node-id", "-id", help="the id of the node")
    topic.add_argument("--node-ip", "-ip", help="the address of the node")
    for name in ("--encoding", "--encoding-errors"):
        topic.add_argument(name, help=argparse.SUPPRESS)
    return topic
