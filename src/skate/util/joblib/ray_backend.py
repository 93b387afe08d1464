"""joblib's backend, under the module in which Ray defines it."""

from __future__ import annotations

from skate.util.joblib.backend import RayBackend

__all__ = ["RayBackend"]
