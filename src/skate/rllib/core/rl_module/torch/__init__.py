"""Modules in torch."""

from __future__ import annotations

from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

__all__ = ["TorchRLModule"]
