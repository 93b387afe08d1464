"""DefaultPPORLModule: an encoder, a policy head and a value head."""

from __future__ import annotations

from typing import Any

from skate.rllib.core.models.configs import RecurrentEncoderConfig
from skate.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from skate.rllib.core.rl_module.rl_module import RLModule


class DefaultPPORLModule(RLModule, InferenceOnlyAPI, ValueFunctionAPI):
    """The default module of PPO; modules of your own need only ``ValueFunctionAPI``."""

    def setup(self) -> None:
        encoder_config = self.catalog.actor_critic_encoder_config
        if isinstance(encoder_config.base_encoder_config, RecurrentEncoderConfig):
            # The critic's memory is collected with the samples, so runners need its encoder as well.
            self.inference_only = False
        encoder_config.inference_only = self.inference_only
        self.encoder: Any = self.catalog.build_actor_critic_encoder(framework=self.framework)
        self.pi: Any = self.catalog.build_pi_head(framework=self.framework)
        self.vf: Any = self.catalog.build_vf_head(framework=self.framework)

    def get_initial_state(self) -> Any:
        return self.encoder.get_initial_state() if hasattr(self.encoder, "get_initial_state") else {}

    def get_non_inference_attributes(self) -> list[str]:
        # Runners carry the memory of the critic's encoder, so they need its weights as well.
        is_needed = self.catalog._model_config_dict["vf_share_layers"] or self.is_stateful()
        return ["vf"] if is_needed else ["vf", "encoder.critic_encoder"]
