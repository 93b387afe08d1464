"""The spans that libraries have recorded in this process, by session."""

from __future__ import annotations

from collections import deque
from typing import Any

#: How many are kept, the latest ones.
SPANS_MAX = 20_000

_kept: deque[tuple[Any, dict[str, Any]]] = deque(maxlen=SPANS_MAX)


def add(node_id: bytes, event: dict[str, Any]) -> None:
    """Keep a span of the session with a node."""
    _kept.append((node_id, event))


def texts_of(node_id: bytes) -> list[str]:
    """Return the spans of the session with a node as JSON, oldest first."""
    import json  # few programs record spans

    return [json.dumps(event, default=str) for owner, event in _kept if owner == node_id]
