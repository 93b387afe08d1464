"""DefaultPPOTorchRLModule: PPO's module in torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from skate.rllib.algorithms.ppo.default_ppo_rl_module import DefaultPPORLModule
from skate.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from skate.rllib.core.columns import Columns
from skate.rllib.core.models.base import ACTOR, CRITIC, ENCODER_OUT
from skate.rllib.core.models.torch.dense_pass import DensePass, PlainCalls, dense_pass_of
from skate.rllib.core.models.torch.encoder import TorchActorCriticEncoder
from skate.rllib.core.models.torch.primitives import is_watched
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule


class DefaultPPOTorchRLModule(TorchRLModule, DefaultPPORLModule):
    """An encoder, a policy head and a value head.

    Args:
        *args: None.
        catalog_class: Chooses the networks. Default :class:`PPOCatalog`.
        **kwargs: Arguments of :class:`RLModule`.
    """

    #: While an update lasts, its `_plain_passes`.
    _passes: list[DensePass] | None = None

    def __init__(self, *args: Any, catalog_class: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, catalog_class=catalog_class or PPOCatalog)
        self._plain_calls = PlainCalls()

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        encoded = self.encoder(batch)
        embedded = encoded[ENCODER_OUT][ACTOR]
        inputs = self._plain_calls(self.pi, embedded)
        out = {Columns.ACTION_DIST_INPUTS: self.pi(embedded) if inputs is None else inputs}
        if Columns.STATE_OUT in encoded:
            out[Columns.STATE_OUT] = encoded[Columns.STATE_OUT]
        return out

    def exploration_networks(self) -> list[Any] | None:
        names = "forward_exploration", "_forward_exploration", "_forward"
        encoder = self.encoder
        if type(encoder) is not TorchActorCriticEncoder or is_watched(encoder):
            return None
        if not self.has_methods_of(DefaultPPOTorchRLModule, *names):
            return None
        return [encoder.encoder if encoder.config.shared else encoder.actor_encoder, self.pi]

    def begin_updates(self) -> None:
        self._passes = self._plain_passes()

    def end_updates(self) -> None:
        self._passes = None

    def _plain_passes(self) -> list[DensePass] | None:
        """Return passes of the encoders for actions and values and of both heads; None if there is more to training."""
        encoder = self.encoder
        names = "forward_train", "_forward_train", "compute_values"
        if type(encoder) is not TorchActorCriticEncoder or is_watched(encoder):
            return None
        if not self.has_methods_of(DefaultPPOTorchRLModule, *names):
            return None
        shared = encoder.config.shared
        actor = encoder.encoder if shared else encoder.actor_encoder
        critic = actor if shared else encoder.critic_encoder
        if critic is None:
            return None
        passes = [dense_pass_of([each]) for each in (actor, critic, self.pi, self.vf)]
        if shared:
            passes[1] = passes[0]
        return None if None in passes else passes  # type: ignore[return-value]

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if self._passes is not None:
            # The same layers, without what `nn.Module` does at each call.
            actor, critic, pi, _ = self._passes
            embedded = actor.with_gradients(batch[Columns.OBS])
            seen = embedded if critic is actor else critic.with_gradients(batch[Columns.OBS])
            return {Columns.EMBEDDINGS: seen, Columns.ACTION_DIST_INPUTS: pi.with_gradients(embedded)}
        encoded = self.encoder(batch)
        out = {
            Columns.EMBEDDINGS: encoded[ENCODER_OUT][CRITIC],
            Columns.ACTION_DIST_INPUTS: self.pi(encoded[ENCODER_OUT][ACTOR]),
        }
        if Columns.STATE_OUT in encoded:
            out[Columns.STATE_OUT] = encoded[Columns.STATE_OUT]
        return out

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        if embeddings is None:
            critic = getattr(self.encoder, "critic_encoder", None)
            if critic is None:
                embeddings = self.encoder(batch)[ENCODER_OUT][CRITIC]
            elif self.is_stateful():
                embeddings = critic({**batch, Columns.STATE_IN: batch[Columns.STATE_IN][CRITIC]})[ENCODER_OUT]
            else:
                embeddings = critic(batch)[ENCODER_OUT]
        elif self._passes is not None:
            return self._passes[3].with_gradients(embeddings).squeeze(-1)
        values: Tensor = self.vf(embeddings)
        return values.squeeze(-1)
