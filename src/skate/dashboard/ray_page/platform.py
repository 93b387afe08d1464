"""Facts about the session that only Ray's page asks for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

import skate
from skate.dashboard.mask import sees_everything
from skate.dashboard.state_routes import reply
from skate.util import state

EVENTS_MAX = 1000


def events(request: Request) -> Response:
    """Return the events of the cluster, such as lost workers, in the form of events of a platform."""
    found = [
        {
            "sourceType": row.source_type,
            "severity": row.severity,
            "message": row.message,
            "eventId": row.event_id,
            "timestamp": row.time,
            "customFields": row.custom_fields or {},
        }
        for row in state.list_cluster_events(detail=True, limit=EVENTS_MAX)
    ]
    return reply({"events": found}, "Retrieved platform events")


def redaction(request: Request) -> Response:
    """Return if runtime environments are shown without values to this client."""
    return reply({"redactionEnabled": not sees_everything(request)}, "")


def cluster_id(request: Request) -> Response:
    """Return the id of the session: that of its first node."""
    return reply({"clusterId": skate.get_runtime_context().get_node_id()}, "Fetched cluster id")


def usage_stats(request: Request) -> Response:
    """Report that no statistics leave this machine."""
    return reply(
        {"usageStatsEnabled": False, "usageStatsPromptEnabled": False}, "Fetched usage stats enabled"
    )
