"""The dashboard beside the session of this process, for `init(include_dashboard=True)` and `skate.dashboard()`."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

from skate.client.session import session
from skate.node import dashboard_process
from skate.node.dashboard_process import DashboardPlace as DashboardPlace
from skate.node.driver.address import to_path

_running: subprocess.Popen[bytes] | None = None
_facts: dict[str, Any] = {}


def start(place: DashboardPlace) -> dict[str, Any] | None:
    """Start the process, and return its facts, among them "url" and "token"; None in local mode, with a warning.

    If a dashboard of the session runs already, return its facts. One that serves only metrics is replaced by one for both.

    Raises:
        RuntimeError: it could not start.
    """
    global _running, _facts
    if _running is not None:
        if "url" in _facts or place.metrics_only:
            return _facts
        place = place._replace(metrics_port=dashboard_process.port_of(_facts["metrics_url"]))
        end()
    address = session.address_of_node()
    found = of_node(address)
    if found is not None and "url" in found:  # else there is none, or one for metrics alone
        return found
    if not address:
        warnings.warn(
            "there is no dashboard: local mode has no node, and one with SKATE_ATTACH=0 lets nobody look",
            UserWarning,
            stacklevel=4,
        )
        return None
    _running = dashboard_process.spawn(address, place)
    if end not in session.endings:
        session.endings.append(end)
    facts = dashboard_process.facts_of(_running)
    if facts is None:
        status = _running.wait()
        end()
        raise RuntimeError(f"the dashboard has ended with status {status}; its error is above")
    _facts = facts
    return facts


def of_node(address: str) -> dict[str, Any] | None:
    """Return the facts about the dashboard that a standing node has beside it, or None."""
    path = to_path(address) or ""
    return dashboard_process.recorded(os.path.dirname(path)) if path.startswith("/") else None


def enter(context: session.RayContext, facts: dict[str, Any]) -> None:
    """Enter the URL, and the port of the metrics, into the context of a session."""
    if "url" in facts:
        context.dashboard_url = facts["url"].partition("://")[2]
        context.address_info["webui_url"] = context.dashboard_url
    if "metrics_url" in facts:
        context.address_info["metrics_export_port"] = dashboard_process.port_of(facts["metrics_url"])


def begin(context: session.RayContext, place: DashboardPlace) -> None:
    """Start the process for a new session, and print the link. No-op in a worker.

    Raises:
        RuntimeError: it could not start. The session has been shut down.
    """
    if not session.current().is_driver:
        return
    known = _running is not None
    try:
        facts = start(place)
    except RuntimeError:
        session.shutdown()
        raise
    if facts is None:
        return
    enter(context, facts)
    if known:
        return
    if "url" in facts:
        print(f"The dashboard is at {facts['url']}/#token={facts['token']}", file=sys.stderr)
    if "metrics_url" in facts:
        print(
            f"The metrics are at {facts['metrics_url']}/metrics, with the header Authorization: Bearer {facts['read_token']}",
            file=sys.stderr,
        )


def end() -> None:
    """End the process, if there is one."""
    global _running
    process, _running = _running, None
    if process is not None:
        dashboard_process.end(process)
