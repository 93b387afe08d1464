"""Names that programs import from ``ray.rllib.utils``."""

from __future__ import annotations

from skate.rllib.utils.annotations import override
from skate.rllib.utils.framework import try_import_tf, try_import_torch

__all__ = ["override", "try_import_tf", "try_import_torch"]
