"""PPOTorchLearner: PPO's loss in torch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from skate.rllib.algorithms.ppo.ppo_learner import (
    LEARNER_RESULTS_KL_KEY,
    LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY,
    LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY,
    PPOLearner,
)
from skate.rllib.core.advantages import bootstrap_rows, following, generalized_advantages, standardized
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.batches import Batch, joined, numeric, rows_of
from skate.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from skate.rllib.core.learner.sequences import concatenated, remembered, sequences_of
from skate.rllib.core.learner.torch.torch_learner import TorchLearner, explained_variance
from skate.rllib.core.rl_module.torch.torch_rl_module import to_tensors

_ZEROS = dict.fromkeys(
    (
        VF_LOSS_KEY,
        LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY,
        LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY,
        LEARNER_RESULTS_KL_KEY,
    ),
    0.0,
)
# Rows per forward pass when values are estimated: enough to keep all cores busy, little enough for images.
_VALUE_ROWS = 4096


class PPOTorchLearner(PPOLearner, TorchLearner):
    """PPO (Schulman et al. 2017, arXiv:1707.06347) with a clipped objective and an adaptive KL penalty."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._values_of_last_minibatch: dict[str, tuple[Tensor, Tensor]] = {}

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        module = self.module[module_id].unwrapped()
        mean = masked_mean(batch)
        advantages = batch[Columns.ADVANTAGES]
        policy = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        ratio = torch.exp(policy.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])
        gains = surrogate = clipped_surrogate(advantages, ratio, config.clip_param)
        rows: dict[str, Tensor] = {}
        entropy_coeff = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        if entropy_coeff:
            rows[ENTROPY_KEY] = policy.entropy()
            gains = gains + entropy_coeff * rows[ENTROPY_KEY]

        if config.use_critic:
            values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
            errors = functional.mse_loss(values, batch[Columns.VALUE_TARGETS], reduction="none")
            bounded = errors if config.vf_clip_param is None else errors.clamp_max(config.vf_clip_param)
            losses = (bounded if config.vf_loss_coeff == 1.0 else config.vf_loss_coeff * bounded) - gains
            rows |= {VF_LOSS_KEY: bounded, LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: errors}
            self._values_of_last_minibatch[module_id] = (batch[Columns.VALUE_TARGETS], values.detach())
        else:
            losses = -gains
        total: Tensor = mean(losses)

        if config.use_kl_loss:
            before = module.get_exploration_action_dist_cls().from_logits(batch[Columns.ACTION_DIST_INPUTS])
            divergences = before.kl(policy)
            rows[LEARNER_RESULTS_KL_KEY] = divergences
            total = total + self.curr_kl_coeffs_per_module[module_id] * mean(divergences)
        # Only the figures of an update's last minibatch are logged, so only their means are taken.
        means = {name: functools.partial(mean, values.detach()) for name, values in rows.items()}
        means[POLICY_LOSS_KEY] = functools.partial(negative_mean, mean, surrogate.detach())
        means.setdefault(ENTROPY_KEY, functools.partial(mean_entropy, policy, mean))
        self.log_statistics(module_id, _ZEROS | means)
        return total

    def _flush_statistics(self, losses: Any) -> None:
        for module_id, (targets, values) in self._values_of_last_minibatch.items():
            found = {LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: explained_variance(targets, values)}
            self.log_statistics(module_id, found)
        self._values_of_last_minibatch = {}
        super()._flush_statistics(losses)

    def batch_of_rollouts(self, module_id: str, rollouts: Sequence[Any]) -> Batch:
        config, module = self.config_of(module_id), self.module[module_id].unwrapped()
        if module.is_stateful():
            return self._batch_of_sequences(module, rollouts, config, self._steps_per_row(module_id))
        parts = []
        for rollout in rollouts:
            values, next_values = self._values_of(module, rollout, config)
            added = advantages_of(rollout, values, next_values, config)
            parts.append(rows_of({**numeric(rollout.columns), **added}, rollout.valid))
        rows = joined(parts)
        rows[Columns.ADVANTAGES] = standardized(rows[Columns.ADVANTAGES])
        return to_tensors(rows, self._device)

    def _batch_of_sequences(self, module: Any, rollouts: Sequence[Any], config: Any, length: int) -> Batch:
        parts = []
        for rollout in rollouts:
            done = rollout.columns[Columns.TERMINATEDS], rollout.columns[Columns.TRUNCATEDS]
            rows = bootstrap_rows(*done, rollout.valid)
            memory = remembered(module, rollout, rows, length, self._device)
            next_values = np.where(rows, memory.last_values, following(memory.values))
            if not config.use_critic:
                memory.values[:], next_values[:] = 0.0, 0.0
            added = advantages_of(rollout, memory.values, next_values, config)
            columns = {**numeric(rollout.columns), **added}
            parts.append(sequences_of(rollout, columns, memory, self._device))
        batch = concatenated(parts)
        mask = batch[Columns.LOSS_MASK]
        counted = batch[Columns.ADVANTAGES][mask]
        spread = counted.std(correction=0).clamp_min(1e-4)
        batch[Columns.ADVANTAGES] = (batch[Columns.ADVANTAGES] - counted.mean()) / spread
        return batch

    def _values_of(self, module: Any, rollout: Any, config: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the values before and after each step, ``(T, N)`` each."""
        observations = rollout.columns[Columns.OBS]
        shape = rollout.valid.shape
        if not config.use_critic:
            return np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        flat = observations.reshape(-1, *observations.shape[2:])
        values = self._estimated(module, flat).reshape(shape)
        next_values = following(values)
        done = rollout.columns[Columns.TERMINATEDS], rollout.columns[Columns.TRUNCATEDS]
        rows = bootstrap_rows(*done, rollout.valid)
        if rows.any():
            next_values[rows] = self._estimated(module, rollout.next_obs[rows])
        return values, next_values

    def _estimated(self, module: Any, observations: np.ndarray) -> np.ndarray:
        values = []
        with torch.no_grad():
            for start in range(0, len(observations), _VALUE_ROWS):
                batch = to_tensors({Columns.OBS: observations[start : start + _VALUE_ROWS]}, self._device)
                values.append(module.compute_values(batch).cpu().numpy())
        return np.concatenate(values).astype(np.float32)


def advantages_of(
    rollout: Any, values: np.ndarray, next_values: np.ndarray, config: Any
) -> dict[str, np.ndarray]:
    """Return the columns of advantages, not standardized, and of value targets."""
    advantages = generalized_advantages(
        rewards=rollout.columns[Columns.REWARDS],
        values=values,
        next_values=next_values,
        terminateds=rollout.columns[Columns.TERMINATEDS],
        truncateds=rollout.columns[Columns.TRUNCATEDS],
        valid=rollout.valid,
        gamma=config.gamma,
        lambda_=config.lambda_ if config.use_gae else 1.0,
    )
    return {Columns.ADVANTAGES: advantages, Columns.VALUE_TARGETS: advantages + values}


def clipped_surrogate(advantages: Tensor, ratio: Tensor, bound: float) -> Tensor:
    """Return the lesser of the advantages times the ratios and of them times the bounded ratios.

    Its gradient by a ratio is the advantage where the ratio counts, and zero where its bound does. Derived by torch from a
    minimum and a clamp it has the same bits, but takes several times as many operations.

    Args:
        advantages: One for each row.
        ratio: The probability of the row's action, by that when it was chosen.
        bound: How far ratios from 1 count.
    """
    free = advantages * ratio
    bounded = advantages * ratio.detach().clamp(1 - bound, 1 + bound)
    return torch.where(free <= bounded, free, bounded)


def negative_mean(mean: Any, values: Tensor) -> Tensor:
    """Return the mean of gains as a loss."""
    found: Tensor = -mean(values)
    return found


@torch.no_grad()
def mean_entropy(policy: Any, mean: Any) -> Tensor:
    """Return the mean entropy of distributions that the loss leaves out."""
    found: Tensor = mean(policy.entropy())
    return found


def masked_mean(batch: dict[str, Any]) -> Any:
    """Return the function that takes means over the rows that count."""
    mask = batch.get(Columns.LOSS_MASK)
    if mask is None:
        return torch.mean
    count, padding = mask.sum(), ~mask
    return lambda values: values.masked_fill(padding, 0.0).sum() / count
