"""Options that the subcommands of a cluster file share, and how these report errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from skate.launcher import launch
from skate.launcher.cluster_config import ClusterConfig, read
from skate.launcher.launch import Steps, print_line
from skate.launcher.ssh import MachineError, Shell, has_terminal

#: Options of Ray's command line without a meaning here, and True for those with a value.
WITHOUT_EFFECT = {
    "no-config-cache": False,
    "disable-usage-stats": False,
    "log-style": True,
    "log-color": True,
}


def parser(verb: str, summary: str) -> argparse.ArgumentParser:
    """Return a parser with the cluster's file and the options that all subcommands have."""
    made = argparse.ArgumentParser(prog=f"skate {verb}", description=summary, allow_abbrev=False)
    made.add_argument(
        "cluster_config_file", metavar="CLUSTER.yaml", help="the cluster, in Ray's format, provider: local"
    )
    made.add_argument("-n", "--cluster-name", metavar="NAME", help="replaces cluster_name of the file")
    made.add_argument("-v", "--verbose", action="store_true", help=argparse.SUPPRESS)
    for name, has_value in WITHOUT_EFFECT.items():
        made.add_argument(f"--{name}", action="store" if has_value else "store_true", help=argparse.SUPPRESS)
    return made


def add_session(made: argparse.ArgumentParser) -> None:
    """Add the options for where a command of the head runs."""
    made.add_argument("--start", action="store_true", help="start the cluster first if its head does not run")
    made.add_argument("--screen", action="store_true", help="run in a `screen` session, which stays")
    made.add_argument("--tmux", action="store_true", help="run in a `tmux` session, which stays")
    made.add_argument(
        "-p",
        "--port-forward",
        action="append",
        type=int,
        default=[],
        metavar="PORT",
        help="forward this local port to the head",
    )


def config_of(given: argparse.Namespace) -> ClusterConfig:
    """Read the cluster's file. Raises ValueError, OSError."""
    return read(
        given.cluster_config_file,
        given.cluster_name,
        getattr(given, "min_workers", None),
        getattr(given, "max_workers", None),
    )


def confirmed(question: str, yes: bool) -> bool:
    """Return True if the user agrees. Raises ValueError if there is no terminal to ask at."""
    if yes:
        return True
    if not has_terminal():
        raise ValueError(f"{question} Add --yes: standard input is not a terminal")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def report_errors(verb: str, act: Callable[[], int]) -> int:
    """Return the exit code of `act`, or 1 after printing its error."""
    try:
        return act()
    except (MachineError, ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"skate {verb}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"skate {verb}: interrupted", file=sys.stderr)
        return 130
    return 1


def start_if_down(config: ClusterConfig) -> None:
    """Start the cluster unless its head runs. Raises MachineError."""
    if not launch.is_up(config):
        warn(launch.up(config, Steps(), print_line), "has not started")


def warn(failed: dict[str, str], what: str) -> None:
    """Print the reasons of machines that have failed."""
    for address, reason in sorted(failed.items()):
        print(f"{address} {what}: {reason}", file=sys.stderr)


def in_session(ours: Shell, command: str, given: argparse.Namespace) -> str:
    """Return the line that runs a command of the head, in `screen` or `tmux` if the options want it. Raises ValueError."""
    if given.screen and given.tmux:
        raise ValueError("--screen and --tmux exclude each other")
    if not (given.screen or given.tmux):
        return ours.line(command)
    # The session stays after the command, with a shell, so that its output can be read.
    inner = ours.line(f"{command}; exec bash")
    return f"screen -dm {inner}" if given.screen else f"tmux new-session -d {inner}"


def run_on_head(config: ClusterConfig, command: str, given: argparse.Namespace, stop: bool) -> int:
    """Run a command on the head in the foreground; return its exit code. Raises MachineError, ValueError."""
    apart = given.screen or given.tmux
    if apart and stop:
        raise ValueError(
            "--stop cannot wait for a session of screen or tmux; run `skate down` when its command has ended"
        )
    line = in_session(launch.shell(config), command, given)
    code = launch.run_on_head(config, line, given.port_forward, terminal=has_terminal() and not apart)
    if stop:
        warn(launch.down(config, config.workers, True, print_line), "has not stopped")
    return code


def path_pair(made: argparse.ArgumentParser, direction: str) -> None:
    """Add the two paths of a copy."""
    made.add_argument(
        "source", nargs="?", metavar="SOURCE", help=f"what to {direction}; by default all file_mounts"
    )
    made.add_argument("target", nargs="?", metavar="TARGET", help="by default the same path")


def words_after(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line at its first ``--``."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]
