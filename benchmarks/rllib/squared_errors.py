"""SAC's critics with squared errors, as in Stable-Baselines3; RLlib's have Huber's loss."""

from __future__ import annotations

from torch import Tensor

from skate.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner


class SquaredErrors(SACTorchLearner):
    """SAC whose critics weigh large errors more than small ones."""

    def critic_errors(self, predicted: Tensor, target: Tensor) -> Tensor:
        return 0.5 * (predicted - target).square()
