"""A learner that makes the actions of a batch likely."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.torch.torch_learner import TorchLearner
from skate.rllib.core.testing.mean_weights import BaseTestingLearner


class BCTorchLearner(TorchLearner, BaseTestingLearner):
    """Minimizes the negative log-likelihood of the actions."""

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        made = (
            self.module[module_id]
            .get_train_action_dist_cls()
            .from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        )
        return -torch.mean(made.logp(batch[Columns.ACTIONS]))
