"""The old thin client's calls, refused with the way to go instead."""

from __future__ import annotations

from typing import Any, NoReturn


def connect(conn_str: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to connect: `init(address=...)` joins a cluster.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"util.connect({conn_str!r}) belongs to the thin client, which does not exist here; "
        f"use init(address={conn_str!r}) instead"
    )


def disconnect() -> NoReturn:
    """Refuse to disconnect: `shutdown()` leaves a cluster.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "util.disconnect() belongs to the thin client, which does not exist here; use shutdown() instead"
    )
