"""PPO's module as Stable-Baselines3 fills it: nearly equal probabilities of all actions at the start."""

from __future__ import annotations

from torch import nn

from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule

#: Stable-Baselines3's gain for the layer of the actions; settings of RLlib have one gain for both heads, which values need.
GAIN = 0.01


class SmallPolicyHead(DefaultPPOTorchRLModule):
    """The default module with small weights before the actions.

    Without them some seeds never meet the goal of Acrobot, and learn nothing for most of a training.
    """

    def setup(self) -> None:
        super().setup()
        layer = self.pi.net.mlp[-1]
        nn.init.orthogonal_(layer.weight, gain=GAIN)
        nn.init.zeros_(layer.bias)
