"""`SyncConfig`, under the name of `ray.tune.syncer`."""

from __future__ import annotations

from skate.tune.configs import SyncConfig

__all__ = ["SyncConfig"]
