"""Ray's thin client, which Skate does not have: checks for a client connection return False."""

from __future__ import annotations

from typing import Any

import skate
from skate.job_config import JobConfig

__all__ = ["JobConfig", "RayAPIStub", "num_connected_contexts", "ray"]


class RayAPIStub:
    """The API as seen through a client, which is the API itself."""

    def is_connected(self, *args: Any, **kwargs: Any) -> bool:
        """Return False: there is no client connection."""
        return False

    def is_default(self) -> bool:
        """Return True: there is a single context."""
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(skate, name)


def num_connected_contexts() -> int:
    """Return 0: no clients are connected."""
    return 0


ray = RayAPIStub()
