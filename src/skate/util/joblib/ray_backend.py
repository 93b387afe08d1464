"""joblib's backend, by the module that Ray defines it in."""

from __future__ import annotations

from skate.util.joblib.backend import RayBackend

__all__ = ["RayBackend"]
