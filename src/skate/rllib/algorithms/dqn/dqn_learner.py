"""DQNLearner: moves target networks after updates, and keeps the errors of the rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from skate.rllib.algorithms.dqn.default_dqn_rl_module import (
    ATOMS,
    QF_LOGITS,
    QF_NEXT_PREDS,
    QF_PREDS,
    QF_PROBS,
    QF_TARGET_NEXT_PREDS,
    QF_TARGET_NEXT_PROBS,
)
from skate.rllib.connectors.env_to_module.defaults import AddObservationsFromEpisodesToBatch
from skate.rllib.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from skate.rllib.core.learner.learner import Learner
from skate.rllib.core.learner.targets import TargetNetworks
from skate.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI
from skate.rllib.utils.metrics import (
    LAST_TARGET_UPDATE_TS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_TARGET_UPDATES,
)

__all__ = [
    "ATOMS",
    "QF_LOGITS",
    "QF_LOSS_KEY",
    "QF_MAX_KEY",
    "QF_MEAN_KEY",
    "QF_MIN_KEY",
    "QF_NEXT_PREDS",
    "QF_PREDS",
    "QF_PROBS",
    "QF_TARGET_NEXT_PREDS",
    "QF_TARGET_NEXT_PROBS",
    "TD_ERROR_MEAN_KEY",
    "DQNLearner",
]

QF_LOSS_KEY = "qf_loss"
QF_MEAN_KEY = "qf_mean"
QF_MAX_KEY = "qf_max"
QF_MIN_KEY = "qf_min"
TD_ERROR_MEAN_KEY = "td_error_mean"


class DQNLearner(Learner):
    """The part of DQN besides its loss, in any framework; see :class:`Learner`."""

    def build(self) -> None:
        if self._is_built:
            return
        self.last_update_ts_by_mid: dict[str, int] = {}
        self._td_errors: dict[str, list[Any]] = {}
        self._target_networks: dict[str, TargetNetworks] = {}
        super().build()
        if self._wants_default_connectors:
            self.add_connectors(self._learner_connector)
        for module in self.module.values():
            if isinstance(module.unwrapped(), TargetNetworkAPI):
                module.unwrapped().make_target_networks()

    def add_connectors(self, pipeline: Any) -> None:
        """Add the observations after the steps."""
        pipeline.insert_after(
            AddObservationsFromEpisodesToBatch, AddNextObservationsFromEpisodesToTrainBatch()
        )

    def add_module(self, *, module_id: str, module_spec: Any, **kwargs: Any) -> Any:
        specs = super().add_module(module_id=module_id, module_spec=module_spec, **kwargs)
        module = self.module[module_id].unwrapped()
        if isinstance(module, TargetNetworkAPI):
            module.make_target_networks()
        return specs

    def take_td_errors(self) -> dict[str, Any]:
        """Return the errors of all rows since the last call, in their order, by module id."""
        raise NotImplementedError

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().after_gradient_based_update(timesteps=timesteps)
        steps = int(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0) or 0)
        for module_id, module in self.module.items():
            config = self.config_of(module_id)
            plain = module.unwrapped()
            last = self.last_update_ts_by_mid.get(module_id, 0)
            if not isinstance(plain, TargetNetworkAPI) or steps - last < config.target_network_update_freq:
                continue
            networks = self._target_networks.setdefault(module_id, TargetNetworks())
            networks.move(plain.get_target_network_pairs(), config.tau)
            self.last_update_ts_by_mid[module_id] = steps
            self.metrics.log_value((module_id, NUM_TARGET_UPDATES), 1, reduce="lifetime_sum")
            self.metrics.log_value((module_id, LAST_TARGET_UPDATE_TS), steps, reduce="max")

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        return [QNetAPI, TargetNetworkAPI]

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component("targets", components, not_components):
            state["targets"] = dict(self.last_update_ts_by_mid)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.last_update_ts_by_mid.update(state.get("targets", {}))
