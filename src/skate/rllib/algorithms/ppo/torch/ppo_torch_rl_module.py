"""PPOTorchRLModule: an older name of PPO's module."""

from __future__ import annotations

from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import (
    DefaultPPOTorchRLModule as PPOTorchRLModule,
)

__all__ = ["PPOTorchRLModule"]
