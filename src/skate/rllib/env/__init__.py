"""Environments of reinforcement learning: lanes, episodes, runners and groups of runners."""

from __future__ import annotations

from skate import lazy_loader

#: Public names by their modules; loaded on first use.
_HOMES = {
    "skate.rllib.env.env_context": ("EnvContext",),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
