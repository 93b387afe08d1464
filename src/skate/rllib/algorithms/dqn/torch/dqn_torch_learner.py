"""DQNTorchLearner: DQN's losses in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from skate.rllib.algorithms.dqn.default_dqn_rl_module import (
    ATOMS,
    QF_LOGITS,
    QF_NEXT_PREDS,
    QF_PREDS,
    QF_TARGET_NEXT_PREDS,
    QF_TARGET_NEXT_PROBS,
)
from skate.rllib.algorithms.dqn.dqn_learner import (
    QF_LOSS_KEY,
    QF_MAX_KEY,
    QF_MEAN_KEY,
    QF_MIN_KEY,
    TD_ERROR_MEAN_KEY,
    DQNLearner,
)
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.torch.torch_learner import TorchLearner


class DQNTorchLearner(DQNLearner, TorchLearner):
    """Q-learning with targets over n steps, with double Q and with distributions over returns."""

    def build(self) -> None:
        if self._is_built:
            return
        super().build()
        self._share_generator()

    def add_module(self, *, module_id: str, module_spec: Any, **kwargs: Any) -> Any:
        specs = super().add_module(module_id=module_id, module_spec=module_spec, **kwargs)
        self._share_generator()
        return specs

    def _share_generator(self) -> None:
        """Let modules draw what is random in their passes of training from this learner's stream."""
        for module in self.module.values():
            module.unwrapped().training_generator = self._generator if self._device.type == "cpu" else None

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        if Columns.STATE_IN in batch:
            batch, fwd_out = steps_of_sequences(batch, fwd_out, config.burn_in_len)
        actions = batch[Columns.ACTIONS].long().unsqueeze(-1)
        chosen_by = fwd_out[QF_NEXT_PREDS if config.double_q else QF_TARGET_NEXT_PREDS]
        best = chosen_by.argmax(-1, keepdim=True)
        selected = fwd_out[QF_PREDS].gather(-1, actions).squeeze(-1)
        discount = discount_of(batch, config.gamma)
        weights = batch["weights"] if "weights" in batch else torch.ones_like(selected)
        if config.num_atoms > 1:
            errors = self._distribution_errors(config, batch, fwd_out, best, discount)
            loss = (weights * errors).mean()
        else:
            following = fwd_out[QF_TARGET_NEXT_PREDS].gather(-1, best).squeeze(-1)
            target = (batch[Columns.REWARDS] + discount * following).detach()
            kind = functional.huber_loss if config.td_error_loss_fn == "huber" else functional.mse_loss
            errors = (selected.detach() - target).abs()
            loss = (weights * kind(selected, target, reduction="none")).mean()
        self._td_errors.setdefault(module_id, []).append(errors.detach())
        values = selected.detach()
        self.log_statistics(
            module_id,
            {
                QF_LOSS_KEY: loss.detach(),
                QF_MEAN_KEY: values.mean,
                QF_MAX_KEY: values.max,
                QF_MIN_KEY: values.min,
                TD_ERROR_MEAN_KEY: errors.detach().mean,
            },
        )
        return loss

    def _distribution_errors(
        self, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any], best: Tensor, discount: Tensor
    ) -> Tensor:
        """Return the cross-entropies between predicted and projected distributions, one per row."""
        rows = torch.arange(len(best), device=best.device)
        logits = fwd_out[QF_LOGITS][rows, batch[Columns.ACTIONS].long()]
        probs = fwd_out[QF_TARGET_NEXT_PROBS][rows, best.squeeze(-1)]
        returns = batch[Columns.REWARDS].unsqueeze(-1) + discount.unsqueeze(-1) * fwd_out[ATOMS]
        target = projected(returns, probs.detach(), config.v_min, config.v_max)
        errors: Tensor = -(target * logits.log_softmax(-1)).sum(-1)
        return errors

    def take_td_errors(self) -> dict[str, Any]:
        found = {
            module_id: (errors[0] if len(errors) == 1 else torch.cat(errors)).cpu().numpy()
            for module_id, errors in self._td_errors.items()
        }
        self._td_errors = {}
        return found


def steps_of_sequences(
    batch: dict[str, Any], fwd_out: dict[str, Any], burn_in_len: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the steps of padded sequences one after another, without those that only warm up the memory.

    Args:
        batch: Columns ``(B, T, ...)`` with the mask of steps.
        fwd_out: What the module returned for them.
        burn_in_len: Steps at the beginning of each sequence that the loss leaves out, if any others are left.
    """
    steps = batch[Columns.LOSS_MASK].bool()
    warm = steps.clone()
    warm[:, :burn_in_len] = False
    chosen = warm if warm.any() else steps
    names = [
        name
        for name, column in batch.items()
        if torch.is_tensor(column) and column.shape[:2] == steps.shape and name != Columns.SEQ_LENS
    ]
    outs = {name: out if name == ATOMS else out[chosen] for name, out in fwd_out.items()}
    return {name: batch[name][chosen] for name in names}, outs


def discount_of(batch: dict[str, Any], gamma: float) -> Tensor:
    """Return the factor of the value after each row's steps; 0 where the episode terminated."""
    alive: Tensor = torch.rsub(batch[Columns.TERMINATEDS].float(), 1.0)
    steps = batch["n_step"] if "n_step" in batch else torch.ones_like(alive)
    # The operators of tensors on the right of a number are functions of Python, which take longer than this.
    discount: Tensor = alive * torch.pow(gamma, steps)
    return discount


def projected(returns: Tensor, probs: Tensor, v_min: float, v_max: float) -> Tensor:
    """Return distributions over evenly spaced atoms (Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        returns: Returns of shape ``(B, atoms)``.
        probs: Their probabilities.
        v_min: The first atom.
        v_max: The last atom.
    """
    count = probs.shape[-1]
    place = (returns.clamp(v_min, v_max) - v_min) / (v_max - v_min) * (count - 1)
    place = place.clamp(0, count - 1)
    lower = place.floor().clamp(max=count - 2)
    upper_share = place - lower
    target = torch.zeros_like(probs)
    target.scatter_add_(-1, lower.long(), probs * (1.0 - upper_share))
    target.scatter_add_(-1, lower.long() + 1, probs * upper_share)
    return target
