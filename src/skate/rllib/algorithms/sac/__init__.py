"""SAC."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {"skate.rllib.algorithms.sac.sac": ("SAC", "SACConfig")}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, ("sac",))
