"""DefaultDQNTorchRLModule: DQN's module in torch."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from skate.rllib.algorithms.dqn.default_dqn_rl_module import (
    ATOMS,
    QF_LOGITS,
    QF_NEXT_PREDS,
    QF_PREDS,
    QF_PROBS,
    QF_TARGET_NEXT_PREDS,
    QF_TARGET_NEXT_PROBS,
    DefaultDQNRLModule,
)
from skate.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from skate.rllib.core.columns import Columns
from skate.rllib.core.models.base import ENCODER_OUT
from skate.rllib.core.models.torch.dense_pass import PlainCalls
from skate.rllib.core.models.torch.heads import TorchMLPHead
from skate.rllib.core.models.torch.noisy import noise_in
from skate.rllib.core.models.torch.primitives import TorchMLP, is_watched
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule


class DefaultDQNTorchRLModule(TorchRLModule, DefaultDQNRLModule):
    """Values of actions: plain or dueling, as means or as distributions over atoms.

    Args:
        *args: None.
        catalog_class: Chooses the networks. Default :class:`DQNCatalog`.
        **kwargs: Arguments of :class:`RLModule`.
    """

    #: Sources of random actions, and of noise in training; torch's own if they are None.
    exploration_generator: torch.Generator | None = None
    training_generator: torch.Generator | None = None

    def __init__(self, *args: Any, catalog_class: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, catalog_class=catalog_class or DQNCatalog)
        self._plain_calls = PlainCalls()

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            found = self.compute_q_values(batch)
            return {Columns.ACTIONS: found[QF_PREDS].argmax(-1), **memory_of(found)}

    def _forward_exploration(self, batch: dict[str, Any], t: int = 0, **kwargs: Any) -> dict[str, Any]:
        """Choose the best action, or with probability epsilon any one that is not masked out.

        Args:
            batch: Columns with the observations.
            t: Number of environment steps so far.
        """
        with torch.no_grad():
            numbers = self.exploration_generator
            epsilon = float(self.epsilon_schedule.update(t))
            observations = batch[Columns.OBS]
            if self._allows_all_actions and torch.is_tensor(observations) and observations.dim() in (2, 4):
                return {Columns.ACTIONS: self._explore(batch, epsilon)}
            with self._noise(numbers):
                found = self.compute_q_values(batch)
            values = found[QF_PREDS]
            best = values.argmax(-1)
            scores = torch.rand(values.shape, generator=numbers).to(values.device)
            drawn = torch.where(values == float("-inf"), -1.0, scores).argmax(-1)
            random = torch.rand(best.shape, generator=numbers).to(values.device) < epsilon
            return {Columns.ACTIONS: torch.where(random, drawn, best), **memory_of(found)}

    @property
    def _allows_all_actions(self) -> bool:
        """True if the networks are the default ones without noise, whose values mask no action out."""
        return (
            not self.is_noisy
            and type(self).compute_q_values is DefaultDQNRLModule.compute_q_values
            and "compute_q_values" not in vars(self)
            and type(self)._qf_forward_helper is DefaultDQNTorchRLModule._qf_forward_helper
            and is_plain_head(self.af)
        )

    def _explore(self, batch: dict[str, Any], epsilon: float) -> Tensor:
        """Draw actions with the same random numbers, but compute values only if one of them is taken by its value."""
        numbers, observations = self.exploration_generator, batch[Columns.OBS]
        scores = torch.rand((len(observations), int(self.action_space.n)), generator=numbers)
        random = torch.rand((len(observations),), generator=numbers) < epsilon
        drawn = scores.argmax(-1).to(observations.device)
        if bool(random.all()):
            return drawn
        best = self.compute_q_values(batch)[QF_PREDS].argmax(-1)
        return torch.where(random.to(best.device), drawn, best)

    def _noise(self, generator: torch.Generator | None) -> Any:
        """Return a block in which the heads, and their slow copies if there are any, have noise of their own."""
        if not self.is_noisy:
            return contextlib.nullcontext()
        heads = [getattr(self, name, None) for name in ("af", "vf", "_target_af", "_target_vf")]
        return noise_in([head for head in heads if head is not None], generator)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with self._noise(self.training_generator):
            return self._forward_of_training(batch)

    def _forward_of_training(self, batch: dict[str, Any]) -> dict[str, Any]:
        if Columns.STATE_IN in batch:
            return self._forward_of_sequences(batch)
        observations, following = batch[Columns.OBS], batch[Columns.NEXT_OBS]
        outs: dict[str, Any] = {}
        now = self.compute_q_values({Columns.OBS: observations})
        outs[QF_PREDS] = now[QF_PREDS]
        with torch.no_grad():
            if self.uses_double_q:
                # The network chooses the next action, the slow copy values it; no gradient passes through the choice.
                outs[QF_NEXT_PREDS] = self.compute_q_values({Columns.OBS: following})[QF_PREDS]
            target = self.forward_target({Columns.OBS: following})
        outs[QF_TARGET_NEXT_PREDS] = target[QF_PREDS]
        if self.num_atoms > 1:
            outs |= {ATOMS: target[ATOMS], QF_TARGET_NEXT_PROBS: target[QF_PROBS]}
            outs |= {QF_LOGITS: now[QF_LOGITS], QF_PROBS: now[QF_PROBS]}
        return outs

    def _forward_of_sequences(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of sequences ``(B, T)``, from one pass over the observations before and after all of their steps."""
        seen = torch.cat((batch[Columns.OBS][:, :1], batch[Columns.NEXT_OBS]), 1)
        steps = {Columns.OBS: seen, Columns.STATE_IN: batch[Columns.STATE_IN]}
        now = self.compute_q_values(steps)
        with torch.no_grad():
            target = self.forward_target(steps)
        outs = {QF_PREDS: now[QF_PREDS][:, :-1], QF_TARGET_NEXT_PREDS: target[QF_PREDS][:, 1:]}
        if self.uses_double_q:
            outs[QF_NEXT_PREDS] = now[QF_PREDS][:, 1:].detach()
        if self.num_atoms > 1:
            outs |= {ATOMS: target[ATOMS], QF_TARGET_NEXT_PROBS: target[QF_PROBS][:, 1:]}
            outs |= {QF_LOGITS: now[QF_LOGITS][:, :-1], QF_PROBS: now[QF_PROBS][:, :-1]}
        return outs

    def compute_advantage_distribution(self, batch: Any) -> dict[str, Any]:
        """Return atoms, logits and probabilities of the outputs of a head, ``(B, actions * atoms)``."""
        logits = batch.reshape(*batch.shape[:-1], int(self.action_space.n), self.num_atoms)
        atoms = torch.linspace(self.v_min, self.v_max, self.num_atoms, device=batch.device)
        return {ATOMS: atoms, "logits": logits, "probs": logits.softmax(-1)}

    def _qf_forward_helper(
        self, batch: dict[str, Any], encoder: Any, heads: tuple[Any, Any]
    ) -> dict[str, Any]:
        if Columns.STATE_IN in batch:
            encoded = encoder(batch)
            return self._values_of(encoded[ENCODER_OUT], heads) | memory_of(encoded)
        embedded = self._plain_calls(encoder, batch.get(Columns.OBS))
        return self._values_of(encoder(batch)[ENCODER_OUT] if embedded is None else embedded, heads)

    def _values_of(self, embedded: Tensor, heads: tuple[Any, Any]) -> dict[str, Any]:
        """Return what heads say of embedded observations."""
        call = self._plain_calls
        advantages = call(heads[0], embedded)
        if advantages is None:
            advantages = heads[0](embedded)
        value: Tensor | None = None if heads[1] is None else call(heads[1], embedded)
        if value is None and heads[1] is not None:
            value = heads[1](embedded)
        if self.num_atoms == 1:
            if value is None:
                return {QF_PREDS: advantages}
            if is_plain_head(heads[0]):
                return {QF_PREDS: advantages - advantages.mean(-1, keepdim=True) + value}
            allowed = advantages.masked_fill(advantages == float("-inf"), float("nan"))
            return {QF_PREDS: advantages - allowed.nanmean(-1, keepdim=True) + value}
        parts = self.compute_advantage_distribution(advantages)
        logits = parts["logits"]
        if value is not None:
            logits = logits - logits.mean(-1, keepdim=True) + value.unsqueeze(-1)
        probs = logits.softmax(-1)
        return {
            ATOMS: parts[ATOMS],
            QF_LOGITS: logits,
            QF_PROBS: probs,
            QF_PREDS: (parts[ATOMS] * probs).sum(-1),
        }


def memory_of(outs: dict[str, Any]) -> dict[str, Any]:
    """Return the memory after a pass, under its name; nothing of networks without memory."""
    return {Columns.STATE_OUT: outs[Columns.STATE_OUT]} if Columns.STATE_OUT in outs else {}


def is_plain_head(head: Any) -> bool:
    """True for a default head that nothing watches; others may mask actions out with minus infinity."""
    return type(head) is TorchMLPHead and not is_watched(head) and type(head.net) is TorchMLP
