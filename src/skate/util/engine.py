"""What Skate's own libraries use of the engine beside the public API: spans in the timeline, and threads of a session."""

from __future__ import annotations

from skate.client.session.session import tied_to_session as tied_to_session
from skate.client.spans import record as record_span

__all__ = ["record_span", "tied_to_session"]
