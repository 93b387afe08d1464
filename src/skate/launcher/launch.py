"""Start, use and stop the cluster of a file: the head first, then all workers at the same time."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from skate.launcher import token
from skate.launcher.cluster_config import ClusterConfig, Commands
from skate.launcher.ssh import Machine, MachineError, Shell, foreground

#: Machines that are prepared at the same time.
MACHINES_AT_ONCE_MAX = 32
Report = Callable[[str], None]


@dataclass(frozen=True)
class Steps:
    """The steps of `up` on each machine.

    Attributes:
        setup: copy files, and run initialization_commands and setup_commands.
        restart: run the start commands also where a node runs already.
        login_shells: run commands in `bash --login -i`.
    """

    setup: bool = True
    restart: bool = True
    login_shells: bool = True


def machines(config: ClusterConfig, addresses: Sequence[str]) -> list[Machine]:
    """Return the machines at these addresses of workers."""
    return [Machine(each, config.auth) for each in addresses]


def head_of(config: ClusterConfig) -> Machine:
    """Return the machine of the head."""
    return Machine(config.head, config.auth, config.head_login)


def shell(config: ClusterConfig, login: bool = True) -> Shell:
    """Return the shell of the cluster's commands: `ray` means Skate, and the token's file is named, never its contents."""
    path = token.remote_path(config.name)
    return Shell(
        login,
        f'unset SKATE_AUTH_TOKEN; export SKATE_AUTH_TOKEN_PATH="{path}" RAY_HEAD_IP={config.head} SKATE_HEAD_IP={config.head}; '
        'ray() { skate "$@"; }; export -f ray; ',
    )


def up(config: ClusterConfig, steps: Steps, report: Report) -> dict[str, str]:
    """Start the cluster, or bring a running one up to date.

    Args:
        config: the cluster.
        steps: what to do on each machine.
        report: is called with each line of output, which begins with the machine's address; from several threads.

    Returns: the reason of each worker that has not started, by address.

    Raises:
        MachineError: the head has not started.
    """
    head = head_of(config)
    secret = token.settle(head, config.name)
    prepare = partial(_prepare, config, steps, report)
    prepare(head, config.on_head)
    token.keep(config.name, secret)

    def start(machine: Machine) -> None:
        token.send(machine, config.name, secret)
        prepare(machine, config.on_workers)

    return on_all(machines(config, config.started_workers), start)


def start_worker(config: ClusterConfig, address: str, report: Report) -> None:
    """Start the node of one worker, with all steps of `up`. Raises MachineError."""
    machine = Machine(address, config.auth)
    token.send(machine, config.name, token.settle(head_of(config), config.name))
    _prepare(config, Steps(), report, machine, config.on_workers)


def _prepare(
    config: ClusterConfig, steps: Steps, report: Report, machine: Machine, commands: Commands
) -> None:
    def show(text: str) -> None:
        report(f"[{machine.address}] {text}")

    ours = shell(config, steps.login_shells)
    if steps.setup:
        send_mounts(config, machine, ours)
        for command in (*commands.initialization, *commands.setup):
            machine.run(ours.line(command), show)
    if steps.restart or not _is_healthy(machine, ours):
        for command in commands.start:
            machine.run(ours.line(command), show)


def _is_healthy(machine: Machine, ours: Shell) -> bool:
    try:
        machine.output(ours.line("skate health-check"))
    except MachineError:
        return False
    return True


def send_mounts(config: ClusterConfig, machine: Machine, ours: Shell) -> None:
    """Copy the file mounts to a machine. Raises MachineError."""
    options = [f"--exclude={each}" for each in config.mounts.exclude]
    options += [f"--filter=dir-merge,- {each}" for each in config.mounts.filter]
    for target, source in config.mounts.sources.items():
        folder = target.rstrip("/") if os.path.isdir(source) else os.path.dirname(target)
        if folder:
            machine.output(ours.line(f"mkdir -p {quoted_path(folder)}"))
        if os.path.isdir(source):
            machine.copy(f"{source.rstrip('/')}/", f"{target.rstrip('/')}/", options)
        else:
            machine.copy(source, target, options)


def quoted_path(path: str) -> str:
    """Return a path for a remote shell, which still replaces a leading ``~``."""
    first, slash, rest = path.partition("/")
    if not first.startswith("~"):
        return shlex.quote(path)
    return first + (slash + shlex.quote(rest) if rest else slash)


def down(config: ClusterConfig, workers: Sequence[str], with_head: bool, report: Report) -> dict[str, str]:
    """Stop nodes of the cluster.

    Args:
        config: the cluster.
        workers: the addresses of those that end.
        with_head: end the head and the cluster; its token becomes invalid.
        report: as in `up`.

    Returns: the reason of each machine whose node has not ended, by address.
    """
    ours = shell(config)

    def stop(machine: Machine) -> None:
        commands = config.on_head if machine.address == config.head else config.on_workers
        for command in commands.stop:
            machine.run(ours.line(command), lambda text: report(f"[{machine.address}] {text}"))
        if with_head:
            token.remove(machine, config.name)

    failed = on_all(machines(config, workers), stop)
    if with_head:
        failed |= on_all([head_of(config)], stop)
        token.forget(config.name)
    return failed


def is_up(config: ClusterConfig) -> bool:
    """Return True if a node runs on the head's machine."""
    return _is_healthy(head_of(config), shell(config))


def machine_at(config: ClusterConfig, address: str | None) -> Machine:
    """Return the head, or the worker at an address. Raises ValueError if the cluster has no such machine."""
    if address in (None, config.head, config.head_login):
        return head_of(config)
    if address not in config.workers:
        raise ValueError(
            f"{address} is no machine of {config.name!r}; it has {', '.join((config.head, *config.workers))}"
        )
    return Machine(address, config.auth)


def run_on_head(config: ClusterConfig, line: str, ports: Sequence[int] = (), *, terminal: bool) -> int:
    """Run a line on the head, with this process's input and output; return its exit code. Raises MachineError."""
    return foreground(head_of(config).ssh(line, terminal=terminal, ports=ports))


def attach(machine: Machine, line: str | None, ports: Sequence[int]) -> int:
    """Open a shell on a machine, or run a line that does; return its exit code. Raises MachineError."""
    return foreground(machine.ssh(line, terminal=True, ports=ports, unattended=False))


def send_files(
    config: ClusterConfig, source: str | None, target: str | None, to_workers: bool
) -> dict[str, str]:
    """Copy a path, or all file mounts, to the head and perhaps to all workers; return the reasons of failures by address."""

    def send(machine: Machine) -> None:
        if source is None:
            send_mounts(config, machine, shell(config))
        else:
            machine.copy(source, target or source)

    workers = machines(config, config.workers) if to_workers else []
    return on_all([head_of(config), *workers], send)


def on_all(machines: Sequence[Machine], act: Callable[[Machine], None]) -> dict[str, str]:
    """Call `act` with all machines at the same time; return the reasons of those where it has failed."""
    failed = {}

    def attempt(machine: Machine) -> None:
        try:
            act(machine)
        except MachineError as error:
            failed[machine.address] = str(error)

    if machines:
        with ThreadPoolExecutor(min(len(machines), MACHINES_AT_ONCE_MAX)) as pool:
            list(pool.map(attempt, machines))
    return failed


def print_line(text: str) -> None:
    """Print a line at once, whole also from several threads."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
