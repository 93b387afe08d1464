"""SAC: soft actor-critic (Haarnoja et al., 2018) with two critics and a learned temperature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.algorithms.algorithm_config.field import Field, Fields, defaults_of, takes
from skate.rllib.algorithms.algorithm_config.sampling import ENVIRONMENT
from skate.rllib.algorithms.algorithm_config.training import TRAINING
from skate.rllib.algorithms.algorithm_config.validation import schedule_errors
from skate.rllib.algorithms.off_policy import OffPolicyAlgorithm, replay_settings

if TYPE_CHECKING:
    from typing_extensions import Self

_NETWORK: dict[str, Any] = {
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "relu",
    "post_fcnet_hiddens": [],
    "post_fcnet_activation": None,
    "custom_model": None,
    "custom_model_config": {},
}
SAC_FIELDS: Fields = {
    "twin_q": Field(True, "use the lesser value of two critics"),
    "q_model_config": Field(
        _NETWORK, "accepted for compatibility; rl_module(model_config=...) sets networks"
    ),
    "policy_model_config": Field(
        _NETWORK, "accepted for compatibility; rl_module(model_config=...) sets networks"
    ),
    "tau": Field(0.005, "the share of the network in an updated target network"),
    "initial_alpha": Field(1.0, "the weight of entropy at the start"),
    "target_entropy": Field(
        "auto", "the entropy that the weight is adapted to reach; auto for that of the space"
    ),
    "n_step": Field(1, "rewards that are summed before the next value: a number, or a range to draw from"),
    "store_buffer_in_checkpoints": Field(False, "save the replay buffer in checkpoints"),
    "replay_buffer_config": Field(
        {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000000, "alpha": 0.6, "beta": 0.4},
        "the class of the replay buffer and its arguments",
    ),
    "training_intensity": Field(None, "trained steps for each sampled one; None for one batch each time"),
    "optimization_config": Field(
        {"actor_learning_rate": 3e-4, "critic_learning_rate": 3e-4, "entropy_learning_rate": 3e-4},
        "accepted for compatibility; actor_lr, critic_lr and alpha_lr set the rates",
        "optimization",
    ),
    "actor_lr": Field(3e-5, "the learning rate of the policy: a number or a schedule"),
    "critic_lr": Field(3e-4, "the learning rate of the critics: a number or a schedule"),
    "alpha_lr": Field(3e-4, "the learning rate of the weight of entropy: a number or a schedule"),
    "target_network_update_freq": Field(0, "sampled steps between two updates of the target networks"),
    "_deterministic_loss": Field(False, "accepted for compatibility"),
    "_use_beta_distribution": Field(False, "must be False: actions are of a squashed Gaussian"),
    "num_steps_sampled_before_learning_starts": Field(1500, "sampled steps before the first update"),
}
_ALSO_TAKEN: Fields = {"clip_actions": ENVIRONMENT["clip_actions"]}


class SACConfig(AlgorithmConfig):
    """The settings of SAC.

    Args:
        algo_class: the class of algorithms that the configuration builds; SAC if omitted.
    """

    _own_fields = SAC_FIELDS
    _learns_from_logp = False
    lr: Any

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or SAC)
        vars(self).update(defaults_of(SAC_FIELDS))
        self.rollout_fragment_length = "auto"
        self.lr = None
        self._train_batch_size_per_learner = 256
        self.train_batch_size = 256
        self.min_time_s_per_iteration = 1
        self.min_sample_timesteps_per_iteration = 100
        self._prior_exploration_config = {"type": "StochasticSampling"}

    @takes(SAC_FIELDS, _ALSO_TAKEN, TRAINING)
    def training(self, **settings: Any) -> Self:
        """Set batches, learning rates, targets, entropy and replay."""
        if isinstance(settings.get("replay_buffer_config"), dict):
            given = settings["replay_buffer_config"]
            settings["replay_buffer_config"] = replay_settings(self.replay_buffer_config, given)
        if "clip_actions" in settings:
            self.environment(clip_actions=settings.pop("clip_actions"))
        return super().training(**settings)

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {**super()._model_config_auto_includes, "twin_q": self.twin_q}

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return the steps of each environment per fragment: with auto, as many as a target sums."""
        if self.rollout_fragment_length == "auto":
            return int(self.n_step[1]) if isinstance(self.n_step, list | tuple) else int(self.n_step)
        return int(self.rollout_fragment_length)

    def get_default_rl_module_spec(self) -> Any:
        """Return the spec of networks for actions and their values."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
        from skate.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultSACTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of SAC's learner."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner

        return SACTorchLearner

    def _checks(self) -> Iterator[str]:
        yield from super()._checks()
        if self.lr is not None:
            yield (
                f"`lr` ({self.lr!r}) must be None: SAC has `actor_lr`, `critic_lr` and `alpha_lr`, for the actor, the "
                "critics and the weight of entropy; set training(lr=None)"
            )
        for name in ("actor_lr", "critic_lr", "alpha_lr"):
            yield from schedule_errors(name, getattr(self, name))
        if self._use_beta_distribution:
            yield "`_use_beta_distribution` must be False: actions are of a squashed Gaussian"


class SAC(OffPolicyAlgorithm):
    """Samples a few steps into the replay buffer and learns from one batch of it, in every training step."""

    samples_at_random_before_learning = True

    @classmethod
    def get_default_config(cls) -> SACConfig:
        """Return SAC's settings."""
        return SACConfig()
