"""DQN."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {"skate.rllib.algorithms.dqn.dqn": ("DQN", "DQNConfig")}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, ("dqn",))
