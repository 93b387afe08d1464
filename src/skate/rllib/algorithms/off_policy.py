"""Training steps of algorithms that learn from a replay buffer."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.utils.checkpoints import Components
from skate.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    REPLAY_BUFFER_ADD_DATA_TIMER,
    REPLAY_BUFFER_RESULTS,
    REPLAY_BUFFER_SAMPLE_TIMER,
    REPLAY_BUFFER_UPDATE_PRIOS_TIMER,
    TIMERS,
)

REPLAY_BUFFER = "local_replay_buffer"


def updates_per_step(config: Any) -> tuple[int, int]:
    """Return the numbers of rounds of sampling and of updates in one training step.

    With `training_intensity` None there is one of each; otherwise the ratio of trained to sampled steps is the given one.

    Args:
        config: an `AlgorithmConfig` of such an algorithm.
    """
    if not config.training_intensity:
        return 1, 1
    sampled = (
        config.get_rollout_fragment_length() * config.num_envs_per_env_runner * (config.num_env_runners or 1)
    )
    ratio = config.training_intensity / (config.total_train_batch_size / sampled)
    if ratio < 1:
        return round(1 / ratio), 1
    return 1, round(ratio)


class OffPolicyAlgorithm(Algorithm):
    """Base class of algorithms that store samples in a replay buffer and learn from batches of it."""

    def setup(self, config: Any) -> None:
        """Create the replay buffer as well."""
        # Imported here because buffers need numpy, which a configuration does not.
        from skate.rllib.utils.replay_buffers.factory import make_replay_buffer

        super().setup(config)
        if self.learner_group.has_own_connectors:
            raise ValueError(
                f"learner_connector is set, but {type(self).__name__} learns from rows of its replay buffer, which no "
                "connector sees; write it as an env_to_module_connector, or override the learner's make_batches()"
            )
        if self.needs_episodes:
            raise ValueError(
                f"{type(self).__name__} has observations or actions of several arrays, which its replay buffer does not "
                f"hold: {self.spaces}; flatten observations with FlattenObservations() as an env_to_module_connector"
            )
        self.local_replay_buffer = make_replay_buffer(config)

    def training_step(self) -> None:
        """Sample into the buffer, update on batches of it, and send the weights to the runners."""
        config, metrics = self.config, self.metrics
        samplings, updates = updates_per_step(config)
        before = self._steps_sampled() < config.num_steps_sampled_before_learning_starts
        for _ in range(samplings):
            self._sample(random_actions=before and self.samples_at_random_before_learning)
        metrics.aggregate([self.local_replay_buffer.get_metrics()], key=REPLAY_BUFFER_RESULTS)
        if self._steps_sampled() < config.num_steps_sampled_before_learning_starts:
            return
        for _ in range(updates):
            self._update()
        self._next_weights()

    #: True if actions are drawn from the space until learning starts.
    samples_at_random_before_learning = False

    def _sample(self, random_actions: bool) -> None:
        config, metrics = self.config, self.metrics
        lanes = config.num_envs_per_env_runner * (config.num_env_runners or 1)
        with metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            rollouts = self.env_runner_group.sample_rollouts_into(
                metrics,
                ENV_RUNNER_RESULTS,
                total_steps=config.get_rollout_fragment_length() * lanes,
                explore=config.explore,
                random_actions=random_actions,
            )
        with metrics.log_time((TIMERS, REPLAY_BUFFER_ADD_DATA_TIMER)):
            self.local_replay_buffer.add(rollouts)

    def _update(self) -> None:
        config, metrics = self.config, self.metrics
        with metrics.log_time((TIMERS, REPLAY_BUFFER_SAMPLE_TIMER)):
            batch = self.local_replay_buffer.sample(
                num_items=config.total_train_batch_size,
                n_step=config.n_step,
                gamma=config.gamma,
                beta=config.replay_buffer_config.get("beta", 0.4),
            )
        with metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            self.learner_group.update_into(
                metrics,
                LEARNER_RESULTS,
                batch=batch,
                timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps_sampled()},
                num_epochs=1,
                minibatch_size=None,
                shuffle_batch_per_epoch=False,
            )
        with metrics.log_time((TIMERS, REPLAY_BUFFER_UPDATE_PRIOS_TIMER)):
            self.local_replay_buffer.update_priorities(self.learner_group.take_td_errors())

    # -- state

    def get_state(
        self, components: Components = None, *, not_components: Components = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the algorithm's state; with the buffer, if `store_buffer_in_checkpoints` is set."""
        found = super().get_state(components, not_components=not_components, **kwargs)
        wanted = self._check_component(REPLAY_BUFFER, components, not_components)
        if wanted and self.config.store_buffer_in_checkpoints:
            found[REPLAY_BUFFER] = self.local_replay_buffer.get_state()
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state, with the buffer if the state has one."""
        super().set_state(state)
        if REPLAY_BUFFER in state:
            self.local_replay_buffer.set_state(state[REPLAY_BUFFER])
