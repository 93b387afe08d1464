"""The calls of the old thin client, rejected with the replacement."""

from __future__ import annotations

from typing import Any, NoReturn


def connect(conn_str: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Reject the call: `init(address=...)` joins a cluster.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"util.connect({conn_str!r}) belongs to the thin client, which Skate does not have; use "
        f"init(address={conn_str!r}) instead"
    )


def disconnect() -> NoReturn:
    """Reject the call: `shutdown()` leaves a cluster.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "util.disconnect() belongs to the thin client, which Skate does not have; use shutdown() instead"
    )
