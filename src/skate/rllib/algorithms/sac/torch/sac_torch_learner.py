"""SACTorchLearner: SAC's losses in torch."""

from __future__ import annotations

import functools
import math
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor
from torch.nn import functional

from skate.rllib.algorithms.dqn.dqn_learner import (
    QF_LOSS_KEY,
    QF_MAX_KEY,
    QF_MEAN_KEY,
    QF_MIN_KEY,
    TD_ERROR_MEAN_KEY,
)
from skate.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner, discount_of
from skate.rllib.algorithms.sac.sac_learner import LOGPS_KEY, QF_TWIN_LOSS_KEY, SACLearner
from skate.rllib.algorithms.sac.torch.default_sac_torch_rl_module import (
    ACTION_LOG_PROBS,
    ACTION_LOG_PROBS_NEXT,
    ACTION_PROBS,
    ACTION_PROBS_NEXT,
    LOGP_NEXT_RESAMPLED,
    LOGP_RESAMPLED,
    Q_CURR,
    QF_PREDS,
    QF_TARGET_NEXT,
    QF_TWIN_PREDS,
)
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.learner import POLICY_LOSS_KEY

_EPSILON = 1e-7


class SACTorchLearner(SACLearner, DQNTorchLearner):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905) with an adapted weight of entropy."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module = self.module[module_id].unwrapped()
        config = config or self.config_of(module_id)
        start = math.log(config.initial_alpha)
        log_alpha = torch.tensor([start], dtype=torch.float32, device=self._device, requires_grad=True)
        self.curr_log_alpha[module_id] = log_alpha
        parts: list[tuple[str, list[Tensor], Any]] = [
            ("qf", [*module.qf_encoder.parameters(), *module.qf.parameters()], config.critic_lr)
        ]
        if config.twin_q:
            twin = [*module.qf_twin_encoder.parameters(), *module.qf_twin.parameters()]
            parts.append(("qf_twin", twin, config.critic_lr))
        parts.append(("policy", [*module.pi_encoder.parameters(), *module.pi.parameters()], config.actor_lr))
        parts.append(("alpha", [log_alpha], config.alpha_lr))
        fused = True if self._device.type == "cpu" else None
        for name, params, rate in parts:
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=torch.optim.Adam(params, eps=_EPSILON, fused=fused),
                params=params,
                lr_or_lr_schedule=rate,
            )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        alpha = self.curr_log_alpha[module_id].detach().exp()
        discrete = isinstance(self.module[module_id].unwrapped().action_space, gym.spaces.Discrete)

        if discrete:
            taken = batch[Columns.ACTIONS].long().unsqueeze(-1)
            soft = fwd_out[QF_TARGET_NEXT] - alpha * fwd_out[ACTION_LOG_PROBS_NEXT]
            following = (fwd_out[ACTION_PROBS_NEXT] * soft).sum(-1)
            predictions = {"qf": fwd_out[QF_PREDS].gather(-1, taken).squeeze(-1)}
            values = fwd_out[QF_PREDS].detach()
            if config.twin_q:
                predictions["qf_twin"] = fwd_out[QF_TWIN_PREDS].gather(-1, taken).squeeze(-1)
                values = torch.minimum(values, fwd_out[QF_TWIN_PREDS].detach())
            policy_loss = (
                (fwd_out[ACTION_PROBS] * (alpha * fwd_out[ACTION_LOG_PROBS] - values)).sum(-1).mean()
            )
            values = fwd_out[QF_PREDS].detach()
            logps = (fwd_out[ACTION_PROBS] * fwd_out[ACTION_LOG_PROBS]).sum(-1).detach()
        else:
            following = fwd_out[QF_TARGET_NEXT] - alpha * fwd_out[LOGP_NEXT_RESAMPLED]
            predictions = {"qf": fwd_out[QF_PREDS]}
            if config.twin_q:
                predictions["qf_twin"] = fwd_out[QF_TWIN_PREDS]
            policy_loss = (alpha * fwd_out[LOGP_RESAMPLED] - fwd_out[Q_CURR]).mean()
            values, logps = fwd_out[Q_CURR].detach(), fwd_out[LOGP_RESAMPLED].detach()

        target = (batch[Columns.REWARDS] + discount_of(batch, config.gamma) * following).detach()
        weights = batch["weights"] if "weights" in batch else torch.ones_like(target)
        losses = {
            name: (weights * self.critic_errors(predicted, target)).mean()
            for name, predicted in predictions.items()
        }
        losses["policy"] = policy_loss
        entropy = self.target_entropy_of(module_id)
        losses["alpha"] = -(self.curr_log_alpha[module_id] * (logps + entropy)).mean()
        differences = [(predicted.detach() - target).abs() for predicted in predictions.values()]
        errors = torch.stack(differences).mean(0) if len(differences) > 1 else differences[0]
        self._td_errors.setdefault(module_id, []).append(errors)
        self._log(module_id, losses, values, logps, errors, entropy)
        # Each loss changes only the parameters of its own optimizer: critics are frozen in the policy's loss, and
        # targets, likelihoods and the weight of entropy are detached. So one backward pass serves all.
        return functools.reduce(torch.add, losses.values())

    def critic_errors(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a critic for each row: Huber's, as in Ray. A subclass may return squared errors instead.

        Args:
            predicted: The critic's values.
            target: What they should be.
        """
        return functional.huber_loss(predicted, target, reduction="none")

    def _log(
        self,
        module_id: str,
        losses: dict[str, Tensor],
        values: Tensor,
        logps: Tensor,
        errors: Tensor,
        target_entropy: float,
    ) -> None:
        # A copy, since figures are computed when they are read, after later updates.
        log_alpha = self.curr_log_alpha[module_id].detach()[0].clone()
        statistics: dict[str, Any] = {
            POLICY_LOSS_KEY: losses["policy"].detach(),
            QF_LOSS_KEY: losses["qf"].detach(),
            "alpha_loss": losses["alpha"].detach(),
            "alpha_value": log_alpha.exp,
            "log_alpha_value": log_alpha,
            "target_entropy": target_entropy,
            LOGPS_KEY: logps.mean,
            QF_MEAN_KEY: values.mean,
            QF_MAX_KEY: values.max,
            QF_MIN_KEY: values.min,
            TD_ERROR_MEAN_KEY: errors.mean,
        }
        if "qf_twin" in losses:
            statistics[QF_TWIN_LOSS_KEY] = losses["qf_twin"].detach()
        self.log_statistics(module_id, statistics)
