"""DQN: deep Q-learning (Mnih et al., 2015) with double Q, dueling heads, n-step targets and prioritized replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.algorithms.algorithm_config.field import Field, Fields, defaults_of, takes
from skate.rllib.algorithms.algorithm_config.training import TRAINING
from skate.rllib.algorithms.algorithm_config.validation import schedule_errors
from skate.rllib.algorithms.off_policy import OffPolicyAlgorithm, replay_settings

if TYPE_CHECKING:
    from typing_extensions import Self

DQN_FIELDS: Fields = {
    "target_network_update_freq": Field(500, "sampled steps between two updates of the target network"),
    "replay_buffer_config": Field(
        {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 50000, "alpha": 0.6, "beta": 0.4},
        "the class of the replay buffer and its arguments",
    ),
    "store_buffer_in_checkpoints": Field(False, "save the replay buffer in checkpoints"),
    "lr_schedule": Field(None, "must be None: lr takes a schedule"),
    "epsilon": Field([(0, 1.0), (10000, 0.05)], "the share of random actions: a number or a schedule"),
    "adam_epsilon": Field(1e-8, "Adam's epsilon"),
    "num_steps_sampled_before_learning_starts": Field(1000, "sampled steps before the first update"),
    "tau": Field(1.0, "the share of the network in an updated target network"),
    "num_atoms": Field(1, "points of the distribution of returns; 1 for its mean"),
    "v_min": Field(-10.0, "the least return of the distribution"),
    "v_max": Field(10.0, "the greatest return of the distribution"),
    "noisy": Field(False, "explore by noise in the weights of the heads, beside epsilon"),
    "sigma0": Field(0.5, "the size of that noise at the start"),
    "dueling": Field(True, "estimate values of states and advantages of actions"),
    "hiddens": Field([256], "layers after the encoder"),
    "double_q": Field(True, "choose the next action by the network, and value it by the target network"),
    "n_step": Field(1, "rewards that are summed before the next value: a number, or a range to draw from"),
    "before_learn_on_batch": Field(None, "must be None: a connector of learners changes batches"),
    "training_intensity": Field(None, "trained steps for each sampled one; None for one batch each time"),
    "td_error_loss_fn": Field("huber", "huber or mse"),
    "categorical_distribution_temperature": Field(1.0, "the temperature of actions"),
    "burn_in_len": Field(0, "steps of each sequence that only warm up the memory of the module"),
}


class DQNConfig(AlgorithmConfig):
    """The settings of DQN.

    Args:
        algo_class: the class of algorithms that the configuration builds; DQN if omitted.
    """

    _own_fields = DQN_FIELDS

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or DQN)
        vars(self).update(defaults_of(DQN_FIELDS))
        self.rollout_fragment_length = "auto"
        self.lr = 5e-4
        self.grad_clip = 40.0
        self.train_batch_size = 32
        self.evaluation_config = {"explore": False}
        self.min_sample_timesteps_per_iteration = 1000
        self._prior_exploration_config = {
            "type": "EpsilonGreedy",
            "initial_epsilon": 1.0,
            "final_epsilon": 0.02,
            "epsilon_timesteps": 10000,
        }

    @takes(DQN_FIELDS, TRAINING)
    def training(self, **settings: Any) -> Self:
        """Set batches, learning rate, exploration, targets and replay."""
        if isinstance(settings.get("replay_buffer_config"), dict):
            given = settings["replay_buffer_config"]
            settings["replay_buffer_config"] = replay_settings(self.replay_buffer_config, given)
        return super().training(**settings)

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {
            **super()._model_config_auto_includes,
            "double_q": self.double_q,
            "dueling": self.dueling,
            "epsilon": self.epsilon,
            "num_atoms": self.num_atoms,
            "std_init": self.sigma0,
            "v_max": self.v_max,
            "v_min": self.v_min,
            **({"noisy": True} if self.noisy else {}),
        }

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return the steps of each environment per fragment: with auto, as many as a target sums."""
        if self.rollout_fragment_length == "auto":
            return int(self.n_step[1]) if isinstance(self.n_step, list | tuple) else int(self.n_step)
        return int(self.rollout_fragment_length)

    def get_default_rl_module_spec(self) -> Any:
        """Return the spec of networks for the values of actions."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
        from skate.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultDQNTorchRLModule, model_config=self.model_config)

    def get_default_learner_class(self) -> Any:
        """Return the class of DQN's learner."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner

        return DQNTorchLearner

    def _checks(self) -> Iterator[str]:
        yield from super()._checks()
        yield from schedule_errors("epsilon", self.epsilon)
        if self.td_error_loss_fn not in ("huber", "mse"):
            yield f"`td_error_loss_fn` ({self.td_error_loss_fn!r}) must be huber or mse"
        for name in ("lr_schedule", "before_learn_on_batch"):
            if getattr(self, name) is not None:
                yield f"`{name}` must be None"
        if not self.sigma0 > 0:
            yield f"`sigma0` ({self.sigma0}) must be > 0: it is the size of the noise of `noisy=True` at the start"
        if self.burn_in_len < 0:
            yield f"`burn_in_len` ({self.burn_in_len}) must be 0 or more steps"


class DQN(OffPolicyAlgorithm):
    """Samples a few steps into the replay buffer and learns from one batch of it, in every training step."""

    replays_sequences = True

    @classmethod
    def get_default_config(cls) -> DQNConfig:
        """Return DQN's settings."""
        return DQNConfig()
