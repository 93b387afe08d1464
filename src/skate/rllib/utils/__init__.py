"""The modules of ``ray.rllib.utils``, which programs import by these paths. What has no such path stands elsewhere."""

from __future__ import annotations

from skate.rllib.utils.annotations import override
from skate.rllib.utils.framework import try_import_tf, try_import_torch

__all__ = ["override", "try_import_tf", "try_import_torch"]
