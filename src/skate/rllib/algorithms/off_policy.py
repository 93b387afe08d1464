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
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
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


def replay_settings(held: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a replay buffer with new ones over them; another type takes the place of all.

    Args:
        held: The settings so far.
        given: The new ones.
    """
    if given.get("type", held.get("type")) != held.get("type"):
        return dict(given)
    return {**held, **given}


class OffPolicyAlgorithm(Algorithm):
    """Base class of algorithms that store samples in a replay buffer and learn from batches of it.

    Samples are columns of rows, and episodes if connectors of learners or spaces of several arrays ask for these.
    """

    def setup(self, config: Any) -> None:
        """Create the replay buffer as well."""
        # Imported here because buffers need numpy, which a configuration does not.
        from skate.rllib.utils.replay_buffers.factory import make_replay_buffer

        super().setup(config)
        self.local_replay_buffer = make_replay_buffer(config)
        self._episode_options = self._sequence_settings()
        self._on_episodes = self.needs_episodes or bool(self._episode_options)
        if (lookback := self.learner_group.num_steps_back) > 1:
            self._episode_options["lookback"] = lookback

    def _sequence_settings(self) -> dict[str, Any]:
        """Return the arguments with which a buffer draws sequences for a module with memory; none without memory.

        Raises:
            ValueError: the settings do not go together with memory.
        """
        # Imported here because it loads torch.
        from skate.rllib.env.sampling.sequence_rows import sequence_length

        config, module = self.config, self.env_runner.module
        if module is None or not module.is_stateful():
            return {}
        name = type(self).__name__
        if not self.replays_sequences:
            raise ValueError(
                f"{name} learns from single steps, and has no use for a module with memory; set use_lstm=False, stack "
                "observations with FrameStackingEnvToModule, or use PPO or DQN"
            )
        kind = type(self.local_replay_buffer).__name__
        if config.is_multi_agent or kind.startswith("Prioritized"):
            raise ValueError(
                f"{name} draws sequences for a module with memory from an EpisodeReplayBuffer of one agent, not from a {kind}; "
                'set replay_buffer_config={"type": "EpisodeReplayBuffer"}'
            )
        if config.n_step != 1:
            raise ValueError(f"n_step must be 1 for a module with memory, and is {config.n_step}")
        length = sequence_length(module.unwrapped())
        if config.burn_in_len >= length:
            raise ValueError(
                f"burn_in_len ({config.burn_in_len}) leaves no step of sequences of {length}; make it smaller, or max_seq_len "
                "larger"
            )
        return {
            "batch_length_T": length,
            "min_batch_length_T": config.burn_in_len + 1,
            "include_extra_model_outputs": True,
        }

    def training_step(self) -> None:
        """Sample into the buffer, update on batches of it, and send the weights to the runners."""
        config, metrics = self.config, self.metrics
        samplings, updates = updates_per_step(config)
        before = self._steps_counted() < config.num_steps_sampled_before_learning_starts
        for _ in range(samplings):
            self._sample(random_actions=before and self.samples_at_random_before_learning)
        metrics.aggregate([self.local_replay_buffer.get_metrics()], key=REPLAY_BUFFER_RESULTS)
        if self._steps_counted() < config.num_steps_sampled_before_learning_starts:
            return
        for _ in range(updates):
            self._update()
        self._next_weights()

    def _steps_counted(self) -> int:
        """Return the steps sampled so far: of environments, or of agents if the configuration counts these."""
        if self.config.count_steps_by != "agent_steps":
            return self._steps_sampled()
        by_agent = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_AGENT_STEPS_SAMPLED_LIFETIME), default={})
        return int(sum(by_agent.values()))

    #: True if the loss is one of sequences for modules with memory.
    replays_sequences = False
    #: True if actions are drawn from the space until learning starts.
    samples_at_random_before_learning = False

    def _sample(self, random_actions: bool) -> None:
        config, metrics = self.config, self.metrics
        lanes = config.num_envs_per_env_runner * (config.num_env_runners or 1)
        group = self.env_runner_group
        sample = group.sample_episodes_into if self._on_episodes else group.sample_rollouts_into
        with metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            samples = sample(
                metrics,
                ENV_RUNNER_RESULTS,
                total_steps=config.get_rollout_fragment_length() * lanes,
                explore=config.explore,
                random_actions=random_actions,
            )
        with metrics.log_time((TIMERS, REPLAY_BUFFER_ADD_DATA_TIMER)):
            self.local_replay_buffer.add(samples)

    def _modules_to_sample(self) -> dict[str, list[str]]:
        """Return the argument of a buffer of several agents that names the modules to draw for."""
        buffer, config = self.local_replay_buffer, self.config
        if not config.is_multi_agent or not hasattr(buffer, "get_module_ids"):
            return {}
        trained, known = config.policies_to_train, self.learner_group._learner.module.keys()
        wanted = [
            module_id
            for module_id in buffer.get_module_ids()
            # Modules may have been removed since, and a function of the batch is asked once there is one.
            if module_id in known and (trained is None or callable(trained) or module_id in trained)
        ]
        return {"modules_to_sample": [each for each in wanted if buffer.get_num_timesteps(each)]}

    def _update(self) -> None:
        config, metrics = self.config, self.metrics
        which = self._modules_to_sample()
        if which.get("modules_to_sample") == []:
            return
        as_episodes = self._on_episodes
        with metrics.log_time((TIMERS, REPLAY_BUFFER_SAMPLE_TIMER)):
            drawn = self.local_replay_buffer.sample(
                num_items=config.total_train_batch_size,
                n_step=config.n_step,
                gamma=config.gamma,
                beta=config.replay_buffer_config.get("beta", 0.4),
                sample_episodes=as_episodes,
                to_numpy=as_episodes,
                **self._episode_options,
                **which,
            )
        with metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            self.learner_group.update_into(
                metrics,
                LEARNER_RESULTS,
                **{"episodes" if as_episodes else "batch": drawn},
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
