"""``skate start``: starts a standing node, which drivers can join and leave."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from skate.client.session import detached_node

SUMMARY = 'start a standing node, for programs that call init(address="auto")'

#: Flags of `ray start` without a meaning here, and True for those with a value.
WITHOUT_EFFECT = {
    "port": True, "node-ip-address": True, "node-manager-port": True, "object-manager-port": True, "ray-client-server-port": True,
    "min-worker-port": True, "max-worker-port": True, "worker-port-list": True, "include-dashboard": True, "dashboard-host": True,
    "dashboard-port": True, "dashboard-agent-listen-port": True, "dashboard-agent-grpc-port": True, "metrics-export-port": True,
    "runtime-env-agent-port": True, "dashboard-grpc-port": True, "disable-usage-stats": False, "autoscaling-config": True,
    "plasma-directory": True, "redis-password": True, "redis-username": True, "redis-shard-ports": True, "log-style": True,
    "log-color": True, "verbose": False, "no-monitor": False, "node-name": True, "storage": True, "tracing-startup-hook": True,
    "ray-debugger-external": False, "no-redirect-output": False, "system-config": True,
    "enable-object-reconstruction": False, "enable-resource-isolation": False, "cgroup-path": True, "system-reserved-cpu": True,
    "system-reserved-memory": True, "worker-ports": True, "ray-object-transfer-port": True,
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Start a node and return 0; 1 if one is already running or it cannot be started."""
    given = _parser().parse_args(list(arguments))
    _warn_of_ignored_flags(given)
    if not given.head:
        where = f" --address {given.address}" if given.address else ""
        print(
            f"skate start{where}: every node starts its own cluster; use `skate start --head`. Nodes that "
            "join a cluster on another machine are not supported yet.",
            file=sys.stderr,
        )
        return 2
    folder = detached_node.folder_of(given.temp_dir)
    begun = time.monotonic()

    def ready(address: str) -> None:
        seconds = time.monotonic() - begun
        print(_how_to_go_on(address, given.temp_dir, seconds), flush=True)

    try:
        settings = _settings(given)
        if given.block:
            print("The node runs until Ctrl-C.", flush=True)
            detached_node.serve(folder, settings, ready)
            return 0
        address, swept = detached_node.start(folder, settings)
    except detached_node.AlreadyRunning as living:
        print(
            f'skate start: your node is already running, at skate://{living}; join it with init(address="auto"), end it with '
            "`skate stop`, or start another one with --temp-dir",
            file=sys.stderr,
        )
        return 1
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"skate start: {error}", file=sys.stderr)
        return 1
    for path in swept:
        print(f"Removed {path}, left behind by a dead node.")
    ready(address)
    return 0


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "num_cpus": given.num_cpus,
        "num_gpus": given.num_gpus,
        "resources": _amounts(given.resources, "--resources"),
        "labels": _labels(given.labels),
        "object_store_memory": given.object_store_memory,
        "_memory": given.memory,
        "object_spilling_directory": given.object_spilling_directory,
    }


def _amounts(text: str | None, flag: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{flag} must be JSON, such as '{{\"licence\": 2}}', got {text!r} ({error})"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{flag} must be a JSON object, got {text!r}")
    return found


def _labels(text: str | None) -> dict[str, str] | None:
    """Parse labels as JSON, or in Ray's newer form key=value,key=value."""
    if not text or text.lstrip().startswith("{"):
        return _amounts(text, "--labels")
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(middle for _, middle, _ in pairs):
        raise ValueError(f"--labels must be key=value,key=value or JSON, got {text!r}")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _how_to_go_on(address: str, temp_dir: str | None, seconds: float) -> str:
    named = f" --temp-dir {temp_dir}" if temp_dir else ""
    where = f"skate://{address}" if temp_dir else "auto"
    return (
        f"A node is up at skate://{address} ({seconds:.2f} s).\n"
        f'  join it:      skate.init(address="{where}"), or SKATE_ADDRESS={where} in the environment\n'
        f"  look at it:   skate status{named}\n"
        f"  end it:       skate stop{named}"
    )


def _warn_of_ignored_flags(given: argparse.Namespace) -> None:
    said = [f"--{name}" for name in WITHOUT_EFFECT if getattr(given, name.replace("-", "_"), None)]
    if said:
        print(
            f"skate start: {', '.join(said)}: accepted without effect, because Skate has no ports and "
            "no dashboard.",
            file=sys.stderr,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skate start", description=SUMMARY, allow_abbrev=False)
    parser.add_argument("--head", action="store_true", help="start a cluster with this node")
    parser.add_argument("--address", help="(of a cluster on another machine: not supported yet)")
    parser.add_argument("--num-cpus", type=float, help="the number of CPUs; default: all")
    parser.add_argument("--num-gpus", type=float, help="the number of GPUs; default: all")
    parser.add_argument("--resources", help="amounts of custom resources, as JSON")
    parser.add_argument("--labels", help="labels of the node, as key=value,... or JSON")
    parser.add_argument(
        "--object-store-memory", type=int, help="bytes for large values; default: 30%% of memory"
    )
    parser.add_argument("--memory", type=int, help="bytes of memory for scheduling; default: 70%%")
    parser.add_argument(
        "--object-spilling-directory", help="the folder for large values when memory is full; default: /tmp"
    )
    parser.add_argument("--temp-dir", help="folder of the node's socket, instead of the user's own")
    parser.add_argument("--block", action="store_true", help="run the node in this process, until Ctrl-C")
    for name, has_value in WITHOUT_EFFECT.items():
        parser.add_argument(
            f"--{name}", action="store" if has_value else "store_true", help=argparse.SUPPRESS
        )
    return parser
