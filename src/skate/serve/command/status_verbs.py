"""`serve status`, `serve config` and `serve shutdown`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from skate.serve.command import target
from skate.serve.exceptions import RayServeException


def status(parsed: argparse.Namespace) -> int:
    """Print the status of applications as YAML."""
    found = target.of(parsed.address).details()
    apps = {name: _application(app) for name, app in found["applications"].items()}
    if parsed.name is not None:
        if parsed.name not in apps:
            raise ValueError(
                f'Application "{parsed.name}" does not exist. The applications are: {", ".join(apps) or "none"}'
            )
        _print(apps[parsed.name])
        return 0
    proxies = {node: proxy["status"] for node, proxy in found["proxies"].items()}
    _print({"proxies": proxies, "applications": apps, "target_capacity": found["target_capacity"]})
    return 0


def _application(app: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": app["status"],
        "message": app["message"],
        "last_deployed_time_s": app["last_deployed_time_s"],
        "deployments": {
            each["name"]: {
                "status": each["status"],
                "status_trigger": each["status_trigger"],
                "replica_states": _counted(each["replicas"]),
                "message": each["message"],
            }
            for each in app["deployments"].values()
        },
    }


def _counted(replicas: list[dict[str, Any]]) -> dict[str, int]:
    states = [each["state"] for each in replicas]
    return {state: states.count(state) for state in sorted(set(states))}


def _print(value: Any) -> None:
    import yaml  # requires the extra `serve`

    print(yaml.safe_dump(value, sort_keys=False), end="")


def config(parsed: argparse.Namespace) -> int:
    """Print the deployed configs."""
    import yaml  # requires the extra `serve`

    apps = target.of(parsed.address).details()["applications"]
    known = {name: app["deployed_app_config"] for name, app in apps.items() if app["deployed_app_config"]}
    if parsed.name is not None:
        if parsed.name not in known:
            have = ", ".join(known) or "none"
            raise ValueError(
                f'No config has been deployed for application "{parsed.name}". Applications with a config: {have}'
            )
        known = {parsed.name: known[parsed.name]}
    if not known:
        print("No configuration was found. Deploy one with `serve deploy`")
    else:
        print("\n---\n\n".join(yaml.safe_dump(each, sort_keys=False) for each in known.values()), end="")
    return 0


def controller_health(parsed: argparse.Namespace) -> int:
    """Print the health metrics of the controller. Raises RayServeException if Serve does not run."""
    found = target.of(parsed.address).details().get("controller_health_metrics")
    if found is None:
        raise RayServeException("Serve does not run on this node; start it with `serve start`")
    if parsed.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    return 0


def shutdown(parsed: argparse.Namespace) -> int:
    """Delete all applications."""
    if not parsed.yes and not _agreed():
        print("nothing was shut down", file=sys.stderr)
        return 1
    target.of(parsed.address).shutdown()
    print("all applications have ended")
    return 0


def _agreed() -> bool:
    """Ask the user for confirmation. Raises ValueError without a terminal."""
    if not sys.stdin.isatty():
        raise ValueError("shutdown asks for confirmation, but standard input is not a terminal; pass --yes")
    return input("End all applications? [y/N] ").lower() in ("y", "yes")
