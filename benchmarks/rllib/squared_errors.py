"""SAC's learner with the loss of Stable-Baselines3's critics."""

from __future__ import annotations

from torch import Tensor

from skate.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner


class SquaredErrors(SACTorchLearner):
    """Critics learn from squared errors.

    RLlib's take Huber's loss, in which an error beyond 1 counts linearly. No setting changes that, and the first errors on
    Pendulum are of several hundred.
    """

    def critic_losses(self, predicted: Tensor, target: Tensor) -> Tensor:
        return 0.5 * (predicted - target).square()
