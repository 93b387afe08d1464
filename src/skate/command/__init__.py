"""The ``skate`` command line: one file per subcommand, imported only when it is used.

    skate run script.py [args...]     run a program that imports ray on Skate
    skate script.py [args...]         the same
    skate autoscale CLUSTER.yaml      start and stop the workers of a cluster file as demand changes
    skate dashboard                   serve state and metrics of a session over HTTP
    skate debug                       attach Python's debugger to a task that waits at a breakpoint
    skate drain-node --reason ...     let a node take no new work, and leave
    skate get KIND ID                 one actor, task, object, node, ... with all details
    skate logs task --id ID           what a task has printed; actor, worker, job, cluster
    skate job submit -- COMMAND       run a command as a job of a standing node; status, logs, stop, list, delete
    skate manifest slurm|kubernetes   print a batch script or manifests of a cluster
    skate memory                      the references that keep objects alive
    skate metrics launch-prometheus   Prometheus for the metrics of your node
    skate profile                     where workers and drivers spend their time; flame graphs
    skate report                      one HTML file about a session, to keep or to send
    skate kill-actor --name NAME      end an actor by its name
    skate list KIND                   actors, tasks, objects, nodes, ...
    skate serve run module:app        serve an application; build, deploy, status, config, shutdown
    skate summary KIND                counts of tasks, actors, objects
    skate stack                       the line that each worker, driver and node is at
    skate start --head                start a standing node; `skate status` shows it, `skate stop` ends it
    skate symmetric-run -- COMMAND    on every machine: start a cluster, run a command on its head, end it
    skate up CLUSTER.yaml             start a cluster by SSH; down, exec, attach, submit, rsync-up, rsync-down
    skate tune list-trials PATH       the trials of a search; list-experiments, add-note
    skate --version                   the versions of Skate and of its API

A subcommand is a module with ``SUMMARY``, one line for the help text, and ``main(arguments) -> exit status``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from skate.command import broken_pipe

# The module of each subcommand. Run a script of the same name by its path: `skate run ./version`.
VERBS = {
    "autoscale": "skate.autoscaler.command",
    "attach": "skate.command.machines.attach",
    "dashboard": "skate.command.dashboard",
    "debug": "skate.command.debug",
    "down": "skate.command.machines.down",
    "drain-node": "skate.command.node.drain_node",
    "exec": "skate.command.machines.exec",
    "get": "skate.command.state.get_row",
    "get-auth-token": "skate.command.auth_token",
    "get-head-ip": "skate.command.machines.head_ip",
    "get-worker-ips": "skate.command.machines.worker_ips",
    "health-check": "skate.command.node.health_check",
    "job": "skate.command.job",
    "kill-actor": "skate.command.state.kill_actor",
    "list": "skate.command.state.list_rows",
    "logs": "skate.command.logs",
    "manifest": "skate.command.machines.manifest",
    "memory": "skate.command.memory",
    "metrics": "skate.command.metrics",
    "profile": "skate.command.profile",
    "report": "skate.command.report",
    "rsync-down": "skate.command.machines.rsync_down",
    "rsync-up": "skate.command.machines.rsync_up",
    "run": "skate.command.run",
    "serve": "skate.serve.command.verbs",
    "stack": "skate.command.stack",
    "start": "skate.command.start",
    "status": "skate.command.status",
    "stop": "skate.command.stop",
    "submit": "skate.command.machines.submit",
    "summary": "skate.command.state.summary",
    "symmetric-run": "skate.command.machines.symmetric_run",
    "timeline": "skate.command.timeline",
    "tune": "skate.tune.command",
    "up": "skate.command.machines.up",
    "version": "skate.command.version",
}

_SPELLINGS = {"--version": "version", "-V": "version"}

# The usual exit status for an invalid command line.
USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: the arguments after the program's name; by default those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = _SPELLINGS.get(words[0], words[0]) if words else ""
    if first == "run" or first not in VERBS and _is_program(first):
        # Nothing is caught around a program: it ends as it does under `python`.
        return _call("run", words[first == "run" :])
    return broken_pipe.run_quietly(lambda: _answer(first, words))


def _answer(first: str, words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if words else USAGE_ERROR
    if first in VERBS:
        return _call(first, words[1:])
    print(f"skate: no verb or script named {first!r}\n\n{_help()}", file=sys.stderr)
    return USAGE_ERROR


def _call(verb: str, words: list[str]) -> int:
    status = importlib.import_module(VERBS[verb]).main(words)
    return int(status)


def _is_program(word: str) -> bool:
    return word == "-m" or (
        not word.startswith("-") and (word.endswith((".py", ".pyc", ".pyz")) or "/" in word)
    )


def _help() -> str:
    lines = ["usage: skate VERB [arguments]", "       skate script.py [arguments]", ""]
    for verb, place in VERBS.items():
        lines.append(f"  {verb:<14} {importlib.import_module(place).SUMMARY}")
    lines += ["", "Run `skate VERB --help` for the options of a verb."]
    return "\n".join(lines)
