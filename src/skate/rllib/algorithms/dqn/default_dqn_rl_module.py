"""DefaultDQNRLModule: an encoder, heads for the values of actions, and slow copies of them."""

from __future__ import annotations

from typing import Any

from skate.rllib.core.learner.targets import make_target_network
from skate.rllib.core.rl_module.apis import InferenceOnlyAPI, QNetAPI, TargetNetworkAPI
from skate.rllib.core.rl_module.rl_module import RLModule
from skate.rllib.utils.schedules.scheduler import Scheduler

QF_PREDS = "qf_preds"
ATOMS = "atoms"
QF_LOGITS = "qf_logits"
QF_NEXT_PREDS = "qf_next_preds"
QF_PROBS = "qf_probs"
QF_TARGET_NEXT_PREDS = "qf_target_next_preds"
QF_TARGET_NEXT_PROBS = "qf_target_next_probs"


class DefaultDQNRLModule(RLModule, InferenceOnlyAPI, TargetNetworkAPI, QNetAPI):
    """The default module of DQN.

    Of ``model_config`` it also reads ``"dueling"``, ``"double_q"``, ``"num_atoms"``, ``"v_min"``, ``"v_max"``,
    ``"epsilon"`` and ``"noisy"``.
    """

    def setup(self) -> None:
        model = self.model_config
        self.uses_dueling = bool(model.get("dueling", True))
        self.uses_double_q = bool(model.get("double_q", True))
        self.is_noisy = bool(model.get("noisy", False))
        self.num_atoms = int(model.get("num_atoms", 1))
        self.v_min, self.v_max = float(model.get("v_min", -10.0)), float(model.get("v_max", 10.0))
        epsilon = model.get("epsilon", [(0, 1.0), (10000, 0.05)])
        Scheduler.validate(fixed_value_or_schedule=epsilon, setting_name="epsilon", description="share")
        self.epsilon_schedule = Scheduler(epsilon)
        self.encoder: Any = self.catalog.build_encoder(framework=self.framework)
        self.af: Any = self.catalog.build_af_head(framework=self.framework)
        if self.uses_dueling:
            self.vf: Any = self.catalog.build_vf_head(framework=self.framework)

    def get_initial_state(self) -> dict[str, Any]:
        return dict(self.encoder.get_initial_state()) if hasattr(self.encoder, "get_initial_state") else {}

    def make_target_networks(self) -> None:
        self._target_encoder: Any = make_target_network(self.encoder)
        self._target_af: Any = make_target_network(self.af)
        if self.uses_dueling:
            self._target_vf: Any = make_target_network(self.vf)

    def get_non_inference_attributes(self) -> list[str]:
        return ["_target_encoder", "_target_af", *(["_target_vf"] if self.uses_dueling else [])]

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        pairs = [(self.encoder, self._target_encoder), (self.af, self._target_af)]
        return [*pairs, (self.vf, self._target_vf)] if self.uses_dueling else pairs

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        heads = (self._target_af, self._target_vf if self.uses_dueling else None)
        return self._qf_forward_helper(batch, self._target_encoder, heads)

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        return self._qf_forward_helper(batch, self.encoder, (self.af, self.vf if self.uses_dueling else None))

    def _qf_forward_helper(
        self, batch: dict[str, Any], encoder: Any, heads: tuple[Any, Any]
    ) -> dict[str, Any]:
        raise NotImplementedError
