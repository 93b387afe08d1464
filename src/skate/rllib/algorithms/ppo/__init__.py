"""PPO."""

from __future__ import annotations

from skate import lazy_loader

_TORCH = "skate.rllib.algorithms.ppo.torch"
_HOMES = {
    "skate.rllib.algorithms.ppo.ppo": ("PPO", "PPOConfig"),
    f"{_TORCH}.ppo_torch_learner": ("PPOTorchLearner",),
    f"{_TORCH}.default_ppo_torch_rl_module": ("DefaultPPOTorchRLModule",),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, ("ppo",))
