"""Parts of the engine that only libraries of Skate use: spans in the timeline, and threads tied to a session."""

from __future__ import annotations

from skate.client.session.session import tied_to_session as tied_to_session
from skate.client.spans import record as record_span

__all__ = ["record_span", "tied_to_session"]
