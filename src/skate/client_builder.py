"""`ray.client(...)`, the deprecated builder of sessions."""

from __future__ import annotations

from skate.client.session.client_builder import ClientBuilder, ClientContext, client

CLIENT_DOCS_URL = "https://docs.ray.io/en/latest/cluster/running-applications/job-submission/ray-client.html"

__all__ = ["CLIENT_DOCS_URL", "ClientBuilder", "ClientContext", "client"]
