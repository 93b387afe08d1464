"""Threads that a library starts, and the session that they work for."""

from __future__ import annotations

from skate.client.session.session import tied_to_session as tied_to_session
