"""``skate symmetric-run``: the same command on every machine starts a cluster, runs a program on its head, and ends it."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from skate.client.session import detached_node
from skate.command.machines.options import words_after
from skate.command.start import LOST

SUMMARY = "run on every machine: start a cluster, run a command on its head, end it"
#: Options of `skate start` that this command decides itself.
DECIDED = ("--head", "--node-ip-address", "--port", "--block", "--timeout")
TIMEOUT_VARIABLES = ("SKATE_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT", "RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT")
TIMEOUT_S = 30.0
POLL_S = 0.1


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the command on the head, 0 on other machines when the cluster has ended, 1 if it did not start."""
    own, command = words_after(arguments)
    parser = argparse.ArgumentParser(
        prog="skate symmetric-run",
        description=f"{SUMMARY}. Options that are not listed are those of `skate start`.",
        usage="skate symmetric-run --address HOST:PORT [--min-nodes N] [options of skate start] -- COMMAND",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--address", required=True, metavar="HOST:PORT", help="the machine that becomes the head"
    )
    parser.add_argument(
        "--min-nodes", type=int, default=1, metavar="N", help="run the command when N nodes have joined"
    )
    given, start_words = parser.parse_known_args(own)
    if not command:
        parser.error("the command is missing: skate symmetric-run --address HOST:PORT -- python program.py")
    for word in start_words:
        if word.partition("=")[0] in DECIDED:
            parser.error(f"{word.partition('=')[0]} is decided by symmetric-run; leave it out")
    try:
        timeout_s = _timeout_s()
        host, port = _resolved(given.address)
        is_head = _is_own(host)
        if given.min_nodes > 1 and ipaddress.ip_address(host).is_loopback:
            raise ValueError(
                f"--address {given.address} is every machine's own; name the head as the others reach it"
            )
        folder = detached_node.folder_of(_value_of(start_words, "--temp-dir"))
        _check_free(folder)
        if is_head:
            signal.signal(signal.SIGTERM, _interrupt)
            return _head(folder, host, port, given.min_nodes, start_words, command, timeout_s)
        return _member(given.address, start_words, timeout_s)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"skate symmetric-run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("skate symmetric-run: interrupted", file=sys.stderr)
        return 130


def _timeout_s() -> float:
    for name in TIMEOUT_VARIABLES:
        if text := os.environ.get(name):
            try:
                return float(text)
            except ValueError:
                raise ValueError(f"{name} must be a number of seconds, got {text!r}") from None
    return TIMEOUT_S


def _resolved(address: str) -> tuple[str, int]:
    """Return the numeric host and the port of an address. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"--address must be HOST:PORT, got {address!r}")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"--address {address}: {host} has no address: {error}") from None
    return str(found[0][4][0]), int(port)


def _is_own(host: str) -> bool:
    """Return True if the address belongs to this machine: only then a socket can be bound to it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def _value_of(words: Sequence[str], option: str) -> str | None:
    """Return the value of one option of `skate start`."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument(option, dest="value")
    found: str | None = parser.parse_known_args(list(words))[0].value
    return found


def _check_free(folder: str) -> None:
    """Raise ValueError if a node runs on this machine, which would end with the command."""
    if _status(folder) is not None:
        raise ValueError(
            "a node of yours already runs on this machine; end it with `skate stop`, or name another --temp-dir"
        )


def _status(folder: str) -> dict[str, Any] | None:
    """Return the status of the node in a folder, or None if there is none."""
    try:
        return detached_node.status(detached_node.locate(None, folder))
    except OSError:
        return None


def _skate(*words: str) -> list[str]:
    return [sys.executable, "-m", "skate", *words]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _head(
    folder: str,
    host: str,
    port: int,
    nodes: int,
    start_words: list[str],
    command: list[str],
    timeout_s: float,
) -> int:
    """Be the head until the command has ended; return its exit code."""
    if nodes > 1 and not detached_node.has_token(_value_of(start_words, "--token-file")):
        raise ValueError(
            "all machines need the same token. On machines with a common home folder, make one for all of them by "
            "`mkdir -p ~/.skate && (umask 077; openssl rand -hex 32 > ~/.skate/token)`; otherwise copy that file"
        )
    print(f"This machine is the head, at {host}:{port}.", flush=True)
    flags = ["--head", f"--node-ip-address={host}", f"--port={port}", *start_words]
    try:
        started = subprocess.run(_skate("start", *flags), capture_output=True, text=True, check=False)
        if started.returncode:
            raise RuntimeError(
                f"the head has not started: {started.stderr.strip() or started.stdout.strip()}"
            )
        _wait_for_nodes(folder, nodes, timeout_s)
        print(f"{nodes} nodes are up; running {' '.join(command)}", flush=True)
        code = subprocess.run(command, env=_environment(folder), check=False).returncode
    finally:
        # On the head, this ends the cluster.
        subprocess.run(_skate("stop", f"--temp-dir={folder}"), stdout=subprocess.DEVNULL, check=False)
    if code:
        print(f"skate symmetric-run: the command has ended with {code}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _environment(folder: str) -> dict[str, str]:
    """Return the environment of the command: `init()` joins the node of this run, wherever its folder is."""
    return {**os.environ, "SKATE_ADDRESS": f"skate://{detached_node.locate(None, folder)}"}


def _wait_for_nodes(folder: str, nodes: int, timeout_s: float) -> None:
    """Wait until this number of nodes is alive. Raises RuntimeError."""
    deadline, shown = time.monotonic() + timeout_s, 0
    while True:
        found = _status(folder)
        alive = 0 if found is None else sum(1 for node in found["nodes"] if node["alive"])
        if alive >= nodes:
            return
        if alive != shown:
            print(f"Waiting for nodes: {alive} of {nodes}", flush=True)
            shown = alive
        if time.monotonic() >= deadline:
            raise RuntimeError(
                f"{alive} of {nodes} nodes have joined within {timeout_s:g} s. Run the same command on the other machines, with "
                f"the same token ({TIMEOUT_VARIABLES[0]} has the time limit in seconds)"
            )
        time.sleep(POLL_S)


def _member(address: str, start_words: list[str], timeout_s: float) -> int:
    """Be a node until the head ends the cluster."""
    print(f"This machine joins the head at {address}.", flush=True)
    words = _skate("start", f"--address={address}", "--block", f"--timeout={timeout_s:g}", *start_words)
    process = subprocess.Popen(words)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    with process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()
    # A node that has joined ends when its cluster does.
    return 0 if code == LOST else code
