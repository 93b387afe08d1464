"""DefaultSACRLModule: a policy, one or two critics, and slow copies of the critics."""

from __future__ import annotations

from typing import Any

from skate.rllib.core.learner.targets import make_target_network
from skate.rllib.core.rl_module.apis import InferenceOnlyAPI, QNetAPI, TargetNetworkAPI
from skate.rllib.core.rl_module.rl_module import RLModule


class DefaultSACRLModule(RLModule, InferenceOnlyAPI, TargetNetworkAPI, QNetAPI):
    """The default module of SAC. Of ``model_config`` it also reads ``"twin_q"``."""

    def setup(self) -> None:
        self.twin_q = bool(self.model_config.get("twin_q", True))
        self.pi_encoder: Any = self.catalog.build_encoder(framework=self.framework)
        if not self.inference_only:
            self.qf_encoder: Any = self.catalog.build_qf_encoder(framework=self.framework)
            if self.twin_q:
                self.qf_twin_encoder: Any = self.catalog.build_qf_encoder(framework=self.framework)
        self.pi: Any = self.catalog.build_pi_head(framework=self.framework)
        if not self.inference_only:
            self.qf: Any = self.catalog.build_qf_head(framework=self.framework)
            if self.twin_q:
                self.qf_twin: Any = self.catalog.build_qf_head(framework=self.framework)

    def get_initial_state(self) -> dict[str, Any]:
        encoder = self.pi_encoder
        return dict(encoder.get_initial_state()) if hasattr(encoder, "get_initial_state") else {}

    def make_target_networks(self) -> None:
        self.target_qf_encoder: Any = make_target_network(self.qf_encoder)
        self.target_qf: Any = make_target_network(self.qf)
        if self.twin_q:
            self.target_qf_twin_encoder: Any = make_target_network(self.qf_twin_encoder)
            self.target_qf_twin: Any = make_target_network(self.qf_twin)

    def get_non_inference_attributes(self) -> list[str]:
        names = ["qf", "target_qf", "qf_encoder", "target_qf_encoder"]
        twins = ["qf_twin", "target_qf_twin", "qf_twin_encoder", "target_qf_twin_encoder"]
        return names + twins if self.twin_q else names

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        pairs = [(self.qf_encoder, self.target_qf_encoder), (self.qf, self.target_qf)]
        if self.twin_q:
            pairs += [
                (self.qf_twin_encoder, self.target_qf_twin_encoder),
                (self.qf_twin, self.target_qf_twin),
            ]
        return pairs
