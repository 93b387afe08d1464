"""PPOLearner: PPO's advantages, coefficients and their schedules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from skate.rllib.connectors.learner.add_one_ts_to_episodes_and_truncate import AddOneTsToEpisodesAndTruncate
from skate.rllib.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
from skate.rllib.core.learner.learner import Learner
from skate.rllib.core.rl_module.apis import ValueFunctionAPI
from skate.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from skate.rllib.utils.schedules.scheduler import Scheduler

LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY = "vf_loss_unclipped"
LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY = "vf_explained_var"
LEARNER_RESULTS_KL_KEY = "mean_kl_loss"
LEARNER_RESULTS_CURR_KL_COEFF_KEY = "curr_kl_coeff"
LEARNER_RESULTS_CURR_ENTROPY_COEFF_KEY = "curr_entropy_coeff"


class PPOLearner(Learner):
    """The part of PPO besides its loss, in any framework; see :class:`Learner`."""

    def build(self) -> None:
        if self._is_built:
            return
        # Made on first use, since modules may come later.
        self.entropy_coeff_schedulers_per_module: dict[str, Scheduler] = PerModule(self._entropy_schedule)
        self.curr_kl_coeffs_per_module: dict[str, float] = PerModule(
            lambda module_id: float(self.config_of(module_id).kl_coeff)
        )
        super().build()
        if self._wants_default_connectors:
            self.add_connectors(self._learner_connector)

    def add_connectors(self, pipeline: Any) -> None:
        """Add the row after each episode, and advantages at the end."""
        pipeline.prepend(AddOneTsToEpisodesAndTruncate())
        gamma, lambda_ = self.config.gamma, self.config.lambda_
        pipeline.append(
            GeneralAdvantageEstimation(gamma=gamma, lambda_=lambda_, settings_of=self._advantage_settings)
        )

    def _advantage_settings(self, module_id: str) -> tuple[float, float, bool]:
        config = self.config_of(module_id)
        return config.gamma, config.lambda_ if config.use_gae else 1.0, bool(config.use_critic)

    def _entropy_schedule(self, module_id: str) -> Scheduler:
        coefficient = self.config_of(module_id).entropy_coeff
        Scheduler.validate(
            fixed_value_or_schedule=coefficient, setting_name="entropy_coeff", description="coefficient"
        )
        return Scheduler(coefficient)

    def remove_module(self, module_id: str, **kwargs: Any) -> Any:
        spec = super().remove_module(module_id, **kwargs)
        self.entropy_coeff_schedulers_per_module.pop(module_id, None)
        self.curr_kl_coeffs_per_module.pop(module_id, None)
        return spec

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().after_gradient_based_update(timesteps=timesteps)
        steps = int(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0) or 0)
        for module_id in self.module.keys():  # noqa: SIM118  a MultiRLModule is no dict
            config = self.config_of(module_id)
            coefficient = self.entropy_coeff_schedulers_per_module[module_id].update(steps)
            self.metrics.log_value((module_id, LEARNER_RESULTS_CURR_ENTROPY_COEFF_KEY), coefficient, window=1)
            if config.use_kl_loss and (module_id, LEARNER_RESULTS_KL_KEY) in self.metrics:
                loss = float(self.metrics.peek((module_id, LEARNER_RESULTS_KL_KEY)))
                self._update_module_kl_coeff(module_id=module_id, config=config, kl_loss=loss)

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        return [ValueFunctionAPI]

    def _update_module_kl_coeff(self, *, module_id: str, config: Any, kl_loss: float) -> None:
        """Move the coefficient of the KL penalty so that the divergence comes near ``config.kl_target``."""
        if kl_loss > 2.0 * config.kl_target:
            self.curr_kl_coeffs_per_module[module_id] *= 1.5
        elif kl_loss < 0.5 * config.kl_target:
            self.curr_kl_coeffs_per_module[module_id] *= 0.5
        coefficient = self.curr_kl_coeffs_per_module[module_id]
        self.metrics.log_value((module_id, LEARNER_RESULTS_CURR_KL_COEFF_KEY), coefficient, window=1)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component("coefficients", components, not_components):
            state["coefficients"] = {
                "kl": dict(self.curr_kl_coeffs_per_module),
                "entropy": {
                    i: schedule.get_current_value()
                    for i, schedule in self.entropy_coeff_schedulers_per_module.items()
                },
            }
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        saved = state.get("coefficients", {})
        self.curr_kl_coeffs_per_module.update(saved.get("kl", {}))
        for module_id, value in saved.get("entropy", {}).items():
            self.entropy_coeff_schedulers_per_module[module_id].restore(value)


class PerModule(dict[str, Any]):
    """A dict by module id that makes missing values.

    Args:
        make: Returns the value of a module id.
    """

    def __init__(self, make: Any) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, module_id: str) -> Any:
        value = self[module_id] = self._make(module_id)
        return value
