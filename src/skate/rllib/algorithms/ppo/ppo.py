"""PPO: proximal policy optimization (Schulman et al., 2017), with a clipped objective and an adaptive KL penalty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.algorithms.algorithm_config.field import Field, Fields, defaults_of, takes
from skate.rllib.algorithms.algorithm_config.training import TRAINING
from skate.rllib.algorithms.algorithm_config.validation import schedule_errors
from skate.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    TIMERS,
)

if TYPE_CHECKING:
    from typing_extensions import Self

LEARNER_RESULTS_CURR_ENTROPY_COEFF_KEY = "curr_entropy_coeff"
LEARNER_RESULTS_CURR_KL_COEFF_KEY = "curr_kl_coeff"
LEARNER_RESULTS_KL_KEY = "mean_kl_loss"
LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY = "vf_explained_var"
LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY = "vf_loss_unclipped"

PPO_FIELDS: Fields = {
    "use_critic": Field(True, "subtract the critic's values from returns; needed with use_gae"),
    "use_gae": Field(True, "estimate advantages by GAE"),
    "lambda_": Field(1.0, "the weight of long returns in GAE, from 0 to 1"),
    "use_kl_loss": Field(True, "penalize the divergence from the policy that sampled"),
    "kl_coeff": Field(0.2, "the weight of that penalty at the start"),
    "kl_target": Field(0.01, "the divergence that the weight is adapted to reach"),
    "vf_loss_coeff": Field(1.0, "the weight of the critic's loss"),
    "entropy_coeff": Field(0.0, "the weight of entropy: a number, or a schedule [[timestep, value], ...]"),
    "entropy_coeff_schedule": Field(None, "must be None: entropy_coeff takes a schedule"),
    "clip_param": Field(0.3, "the bound of the change of an action's probability, as a share"),
    "vf_clip_param": Field(10.0, "the bound of the squared error of a value"),
    "lr_schedule": Field(None, "must be None: lr takes a schedule"),
}


class PPOConfig(AlgorithmConfig):
    """The settings of PPO.

    Args:
        algo_class: the class of algorithms that the configuration builds; PPO if omitted.
    """

    _own_fields = PPO_FIELDS

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or PPO)
        vars(self).update(defaults_of(PPO_FIELDS))
        self.num_env_runners = 2
        self.rollout_fragment_length = "auto"
        self.lr = 5e-5
        self.train_batch_size = 4000
        self.num_epochs = 30
        self.minibatch_size = 128
        self.shuffle_batch_per_epoch = True
        self._prior_exploration_config = {"type": "StochasticSampling"}

    @takes(PPO_FIELDS, TRAINING)
    def training(self, **settings: Any) -> Self:
        """Set batches, learning rate, advantages and losses."""
        return super().training(**settings)

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {**super()._model_config_auto_includes, "vf_share_layers": False}

    def get_default_rl_module_spec(self) -> Any:
        """Return the spec of networks for actions and values."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
        from skate.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultPPOTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of PPO's learner."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

        return PPOTorchLearner

    def _checks(self) -> Iterator[str]:
        yield from super()._checks()
        batch = self.train_batch_size_per_learner
        if isinstance(self.minibatch_size, int) and self.minibatch_size > batch:
            yield (
                f"`minibatch_size` ({self.minibatch_size}) must be <= `train_batch_size_per_learner` ({batch}): a batch "
                f"is split into minibatches, {self.num_epochs} times"
            )
        for name in ("entropy_coeff_schedule", "lr_schedule"):
            if getattr(self, name) is not None:
                yield f"`{name}` is gone: give `{name.removesuffix('_schedule')}` the schedule"
        if self.use_gae and not self.use_critic:
            yield "`use_gae=True` needs `use_critic=True`: GAE is made from the critic's values"
        yield from schedule_errors("entropy_coeff", self.entropy_coeff)
        if isinstance(self.entropy_coeff, int | float) and self.entropy_coeff < 0:
            yield f"`entropy_coeff` ({self.entropy_coeff}) must be >= 0.0"


class PPO(Algorithm):
    """Samples a batch with the present policy and updates the policy on it, in every training step."""

    @classmethod
    def get_default_config(cls) -> PPOConfig:
        """Return PPO's settings."""
        return PPOConfig()

    def training_step(self) -> None:
        """Sample a batch, update on it in epochs of minibatches, and send the weights to the runners."""
        config, metrics = self.config, self.metrics
        with metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            own = self.needs_episodes or self.shows_samples
            sample = self.env_runner_group.sample_episodes if own else self.env_runner_group.sample_rollouts
            samples, sampled = sample(total_steps=config.total_train_batch_size, explore=config.explore)
            metrics.aggregate(sampled, key=ENV_RUNNER_RESULTS)
        with metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            learned = self.learner_group.update(
                **{"episodes" if own else "rollouts": samples},
                timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps_sampled()},
                num_epochs=config.num_epochs,
                minibatch_size=config.minibatch_size,
                shuffle_batch_per_epoch=config.shuffle_batch_per_epoch,
            )
            metrics.aggregate(learned, key=LEARNER_RESULTS)
        self._next_weights()
