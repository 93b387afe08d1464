"""Ray's client of clusters: here a client is a process with a session, so these names describe that session."""

from __future__ import annotations

from typing import Any

import skate
from skate.client.session import session
from skate.job_config import JobConfig
from skate.util.client_connect import connect, disconnect

__all__ = ["JobConfig", "RayAPIStub", "num_connected_contexts", "ray"]


class RayAPIStub:
    """The API as seen through a client, which is the API itself."""

    def connect(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Connect to a cluster; see `skate.util.connect`."""
        return connect(*args, **kwargs)

    def disconnect(self) -> None:
        """End the session of this process."""
        disconnect()

    def is_connected(self, *args: Any, **kwargs: Any) -> bool:
        """Return True while this process is the client of a cluster."""
        return session.is_client()

    def is_default(self) -> bool:
        """Return True: there is a single context."""
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(skate, name)


def num_connected_contexts() -> int:
    """Return 1 while this process is the client of a cluster, else 0."""
    return int(session.is_client())


ray = RayAPIStub()
