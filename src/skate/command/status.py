"""``skate status``: a node's resources, their users, and pending work."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from skate.client.session import detached_node
from skate.command.session import ADDRESS_HELP, PID_HELP

SUMMARY = "show the node's resources, their users and pending work"
UNITS = 10_000
SHOWN_MAX = 20


def main(arguments: Sequence[str]) -> int:
    """Print the state of a node and return 0; 1 if there is none."""
    parser = argparse.ArgumentParser(prog="skate status", description=SUMMARY)
    parser.add_argument("--address", help=ADDRESS_HELP)
    parser.add_argument("--pid", type=int, help=PID_HELP)
    parser.add_argument("--temp-dir", help="folder of the node's socket, as given to `skate start`")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--ray-format", action="store_true", help="as `ray status` prints it, for scripts")
    parser.add_argument("-v", "--verbose", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(list(arguments))
    try:
        where = given.address
        if given.pid is not None:
            where = detached_node.of_process(given.pid, given.temp_dir)
        path = detached_node.locate(where, detached_node.folder_of(given.temp_dir))
        if given.ray_format:
            return _print_as_ray(path)
        found = detached_node.status(path)
    except (OSError, ValueError) as error:
        print(f"skate status: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, indent=2) if given.json else "\n".join(described(found)))
    return 0


def _print_as_ray(path: str) -> int:
    from skate.autoscaler.report import status_text  # only for scripts of Ray
    from skate.command.session import joined

    with joined(f"skate://{path}"):
        print(status_text())
    return 0


def described(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines to print."""
    cluster = f", in the cluster of {found['cluster']}" if found["cluster"] else ""
    yield f"node at skate://{found['path']} (pid {found['pid']}){cluster}"
    yield from _section("nodes", [_node(node) for node in found["nodes"]])
    used = [_used(name, units, found["free"].get(name, 0)) for name, units in sorted(found["total"].items())]
    memory = f"object store: {found['memory_used'] / 2**20:.1f} MiB in use, {found['spilled'] / 2**20:.1f} MiB on disk"
    yield from _section(
        "resources, used of total", [*(line for line in used if line), memory, f"workers: {found['workers']}"]
    )
    drivers = [*map(_driver, found["drivers"]), *map(_driver_elsewhere, found["jobs_elsewhere"])]
    yield from _section("drivers", drivers)
    yield from _section("actors", [_actor(each) for each in found["actors"]])
    yield from _section("waiting", [f"{count} x {name}: {why}" for name, count, why in found["pending"]])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield f"{title}:" if lines else f"{title}: none"
    yield from (f"  {line}" for line in lines[:SHOWN_MAX])
    if len(lines) > SHOWN_MAX:
        yield f"  and {len(lines) - SHOWN_MAX} more"


def _node(node: dict[str, Any]) -> str:
    state = "alive" if node["alive"] else f"dead: {node['reason']}"
    if node["draining"]:
        left = "" if node["seconds_left"] < 0 else f", for {node['seconds_left']} s more"
        state = f"draining: {node['draining']}{left}"
    return f"{node['node_id'][:12]}  {node['address']}  {state}"


def _used(name: str, total: int, free: int) -> str:
    if name.startswith("node:") or name == "object_store_memory":
        return ""
    if name == "memory":
        return f"{name}: {(total - free) / UNITS / 2**30:.2f} of {total / UNITS / 2**30:.2f} GiB"
    return f"{name}: {(total - free) / UNITS:g} of {total / UNITS:g}"


def _driver(driver: dict[str, Any]) -> str:
    return f"job {driver['job']}  pid {driver['pid']}  for {driver['seconds']:.0f} s  {driver['command']}"


def _driver_elsewhere(job: dict[str, Any]) -> str:
    return f"job {job['job']}  at the node {job['address']}"


def _actor(actor: dict[str, Any]) -> str:
    name = f" {actor['name']!r} in namespace {actor['namespace']!r}" if actor["name"] else ""
    return f"{actor['class_name']}{name}: {actor['state']}, job {actor['job']}, pid {actor['pid'] or '-'}"
