"""DefaultSACTorchRLModule: SAC's module in torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from skate.rllib.algorithms.sac.default_sac_rl_module import DefaultSACRLModule
from skate.rllib.algorithms.sac.sac_catalog import SACCatalog
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.targets import Parameters
from skate.rllib.core.models.base import ENCODER_OUT
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

QF_PREDS = "qf_preds"
QF_TWIN_PREDS = "qf_twin_preds"
QF_TARGET_NEXT = "q_target_next"
ACTION_DIST_INPUTS_NEXT = "action_dist_inputs_next"
ACTION_PROBS = "action_probs"
ACTION_LOG_PROBS = "action_log_probs"
ACTION_PROBS_NEXT = "action_probs_next"
ACTION_LOG_PROBS_NEXT = "action_log_probs_next"
Q_CURR = "q_curr"
LOGP_RESAMPLED = "logp_resampled"
LOGP_NEXT_RESAMPLED = "logp_next_resampled"


class DefaultSACTorchRLModule(TorchRLModule, DefaultSACRLModule):
    """A policy over Box or Discrete actions, and critics.

    Args:
        *args: None.
        catalog_class: Chooses the networks. Default :class:`SACCatalog`.
        **kwargs: Arguments of :class:`RLModule`.
    """

    #: Source of the actions that are drawn in training; torch's own if it is None.
    training_generator: torch.Generator | None = None

    def __init__(self, *args: Any, catalog_class: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, catalog_class=catalog_class or SACCatalog)
        self._critics = Parameters()

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self._policy(batch[Columns.OBS])}

    def exploration_networks(self) -> list[Any] | None:
        names = "forward_exploration", "_forward_exploration", "_forward", "_policy"
        return [self.pi_encoder, self.pi] if self.has_methods_of(DefaultSACTorchRLModule, *names) else None

    def _policy(self, observations: Tensor) -> Tensor:
        inputs: Tensor = self.pi(self.pi_encoder({Columns.OBS: observations})[ENCODER_OUT])
        return inputs

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if isinstance(self.action_space, gym.spaces.Discrete):
            return self._forward_train_discrete(batch)
        return self._forward_train_continuous(batch)

    def _forward_train_discrete(self, batch: dict[str, Any]) -> dict[str, Any]:
        now = {Columns.OBS: batch[Columns.OBS]}
        after = {Columns.OBS: batch[Columns.NEXT_OBS]}
        with torch.no_grad():
            log_probs_next = self._policy(batch[Columns.NEXT_OBS]).log_softmax(-1)
            target = self.forward_target(after, squeeze=False)
        log_probs = self._policy(batch[Columns.OBS]).log_softmax(-1)
        outs = {
            ACTION_PROBS_NEXT: log_probs_next.exp(),
            ACTION_LOG_PROBS_NEXT: log_probs_next,
            QF_TARGET_NEXT: target,
            ACTION_PROBS: log_probs.exp(),
            ACTION_LOG_PROBS: log_probs,
            QF_PREDS: self._qf_forward_train_helper(now, self.qf_encoder, self.qf, squeeze=False),
        }
        if self.twin_q:
            outs[QF_TWIN_PREDS] = self._qf_forward_train_helper(
                now, self.qf_twin_encoder, self.qf_twin, squeeze=False
            )
        return outs

    def _forward_train_continuous(self, batch: dict[str, Any]) -> dict[str, Any]:
        observations, following = batch[Columns.OBS], batch[Columns.NEXT_OBS]
        taken = {Columns.OBS: observations, Columns.ACTIONS: batch[Columns.ACTIONS]}
        kind, numbers = self.get_train_action_dist_cls(), self.training_generator
        inputs = self._policy(observations)
        actions, logp = kind.from_logits(inputs).rsample_and_logp(generator=numbers)
        with torch.no_grad():
            inputs_next = self._policy(following)
            actions_next, logp_next = kind.from_logits(inputs_next).sample_and_logp(generator=numbers)
            target = self.forward_target({Columns.OBS: following, Columns.ACTIONS: actions_next})
        with self._frozen_critics():
            value = self.compute_q_values({Columns.OBS: observations, Columns.ACTIONS: actions})
        outs = {
            Columns.ACTION_DIST_INPUTS: inputs,
            ACTION_DIST_INPUTS_NEXT: inputs_next,
            QF_PREDS: self._qf_forward_train_helper(taken, self.qf_encoder, self.qf),
            LOGP_RESAMPLED: logp,
            LOGP_NEXT_RESAMPLED: logp_next,
            Q_CURR: value,
            QF_TARGET_NEXT: target,
        }
        if self.twin_q:
            outs[QF_TWIN_PREDS] = self._qf_forward_train_helper(taken, self.qf_twin_encoder, self.qf_twin)
        return outs

    @contextmanager
    def _frozen_critics(self) -> Iterator[None]:
        """Let gradients of the policy's loss pass through the critics, but not change them."""
        critics = [self.qf_encoder, self.qf]
        if self.twin_q:
            critics += [self.qf_twin_encoder, self.qf_twin]
        parameters = [each for each in self._critics.of(critics) if each.requires_grad]
        for parameter in parameters:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in parameters:
                parameter.requires_grad_(True)

    def forward_target(self, batch: dict[str, Any], squeeze: bool = True) -> Any:
        values = self._qf_forward_train_helper(batch, self.target_qf_encoder, self.target_qf, squeeze)
        if not self.twin_q:
            return values
        twin = self._qf_forward_train_helper(batch, self.target_qf_twin_encoder, self.target_qf_twin, squeeze)
        return torch.minimum(values, twin)

    def compute_q_values(self, batch: dict[str, Any], squeeze: bool = True) -> Any:
        values = self._qf_forward_train_helper(batch, self.qf_encoder, self.qf, squeeze)
        if not self.twin_q:
            return values
        twin = self._qf_forward_train_helper(batch, self.qf_twin_encoder, self.qf_twin, squeeze)
        return torch.minimum(values, twin)

    def _qf_forward_train_helper(
        self, batch: dict[str, Any], encoder: Any, head: Any, squeeze: bool = True
    ) -> Tensor:
        values: Tensor = head(encoder(batch)[ENCODER_OUT])
        return values.squeeze(-1) if squeeze else values
