"""DQN from end to end: it learns, repeats itself bit for bit, and continues from a checkpoint with its buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.off_policy import updates_per_step
from skate.rllib.algorithms.sac import SACConfig
from skate.rllib.connectors.env_to_module import FrameStackingEnvToModule
from skate.rllib.connectors.learner import FrameStackingLearner
from skate.rllib.connectors.learner.learner_connector_pipeline import batches_of_episodes
from skate.rllib.core.columns import Columns
from skate.rllib.env.multi_agent_env import make_multi_agent
from tests.rllib.test_ppo import digest


def small() -> DQNConfig:
    """Return a configuration whose iteration takes a fifth of a second."""
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=1e-3,
            train_batch_size=32,
            num_steps_sampled_before_learning_starts=100,
            target_network_update_freq=100,
        )
        .rl_module(model_config={"fcnet_hiddens": [32], "head_fcnet_hiddens": []})
        .reporting(min_sample_timesteps_per_iteration=400)
        .debugging(seed=3)
    )


def train(config: Any, iterations: int) -> tuple[Any, dict[str, Any]]:
    """Return an algorithm after some iterations, and the last result."""
    algorithm = config.build_algo()
    result: dict[str, Any] = {}
    for _ in range(iterations):
        result = algorithm.train()
    return algorithm, result


def test_an_iteration() -> None:
    algorithm, result = train(small(), 1)
    algorithm.stop()
    assert result["num_env_steps_sampled_lifetime"] == 400
    assert result["num_training_step_calls_per_iteration"] == 50
    learned = result["learners"]["default_policy"]
    for key in ("qf_loss", "qf_mean", "qf_max", "qf_min", "td_error_mean"):
        assert isinstance(learned[key], float)
    assert result["replay_buffer"]["num_env_steps_stored"] == 400
    assert algorithm.iteration == 1


def test_the_same_seed_gives_the_same_bits() -> None:
    digests = []
    for seed in (1, 1, 2):
        algorithm, _ = train(small().debugging(seed=seed), 1)
        digests.append(digest(algorithm))
        algorithm.stop()
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_a_restored_run_continues_bit_for_bit_with_its_buffer(tmp_path: Path) -> None:
    algorithm, _ = train(small().training(store_buffer_in_checkpoints=True), 1)
    path = algorithm.save_to_path(tmp_path / "saved")
    algorithm.train()
    expected = digest(algorithm)
    algorithm.stop()
    restored = Algorithm.from_checkpoint(path)
    assert len(restored.local_replay_buffer) == 400
    restored.train()
    assert digest(restored) == expected
    restored.stop()


def test_the_intensity_of_training_sets_the_number_of_updates() -> None:
    config = small()
    assert updates_per_step(config) == (1, 1)
    assert updates_per_step(config.training(training_intensity=32)) == (1, 8)
    assert updates_per_step(config.training(training_intensity=1)) == (4, 1)


def test_exploration_falls_with_the_steps() -> None:
    config = small().training(
        epsilon=[(0, 1.0), (400, 0.0)], lr=1e-9, num_steps_sampled_before_learning_starts=10**6
    )
    algorithm, _ = train(config, 1)
    state = [0.01, 0.02, 0.03, 0.04]
    actions = {int(algorithm.compute_single_action(state)) for _ in range(60)}
    best = int(algorithm.compute_single_action(state, explore=False))
    algorithm.stop()
    assert actions == {best}


def test_a_callback_at_the_end_of_a_sample_changes_no_bit() -> None:
    seen: list[int] = []
    digests = []
    for config in (
        small(),
        small().callbacks(on_sample_end=lambda *, samples, **kwargs: seen.append(len(samples))),
    ):
        algorithm, _ = train(config, 1)
        digests.append(digest(algorithm))
        algorithm.stop()
    assert digests[0] == digests[1] and len(seen) == 50


class Counting(gym.Env[Any, Any]):
    """Observes the number of the step, from 1; episodes have seven steps."""

    observation_space = gym.spaces.Box(0.0, 8.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.steps = 0

    def _seen(self) -> np.ndarray:
        return np.full(1, self.steps + 1, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._seen(), 1.0, self.steps == 7, False, {}


@pytest.mark.parametrize("buffer", ["EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer"])
@pytest.mark.parametrize(("agents", "n_step", "frames"), [(0, 1, 3), (0, (1, 4), 4), (2, 3, 2), (0, 2, 1)])
def test_observations_are_stacked_in_the_learner(agents: int, n_step: Any, frames: int, buffer: str) -> None:
    many = bool(agents)
    config = (
        DQNConfig()
        .environment(make_multi_agent(Counting) if many else Counting, env_config={"num_agents": agents})
        .env_runners(
            rollout_fragment_length=5,
            env_to_module_connector=lambda env, spaces, device: FrameStackingEnvToModule(
                num_frames=frames, multi_agent=many
            ),
        )
        .training(
            learner_connector=lambda observations, actions: FrameStackingLearner(
                num_frames=frames, multi_agent=many
            ),
            replay_buffer_config={"type": f"MultiAgent{buffer}" if many else buffer, "capacity": 60},
            n_step=n_step,
            num_steps_sampled_before_learning_starts=20,
            train_batch_size_per_learner=16,
        )
        .reporting(min_sample_timesteps_per_iteration=60)
        .debugging(seed=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
    )
    if many:
        config.multi_agent(policies={"p"}, policy_mapping_fn=lambda agent, episode, **kwargs: "p")
    algorithm = config.build_algo()
    try:
        result = algorithm.train()
        drawn = algorithm.local_replay_buffer.sample(
            num_items=64, n_step=n_step, lookback=frames, to_numpy=True, sample_episodes=True
        )
        learner = algorithm.learner_group._learner
        (batch,) = batches_of_episodes(learner._learner_connector, learner.module, drawn).values()
    finally:
        algorithm.stop()
    assert all(np.isfinite(each["total_loss"]) for key, each in result["learners"].items() if key[0] != "_")
    now = batch[Columns.OBS][:, -1]
    after = now + batch["n_step"]
    assert {1.0, 2.0, 3.0, 4.0} <= set(now.tolist())
    back = torch.arange(frames - 1, -1, -1)
    for newest, column in ((now, Columns.OBS), (after, Columns.NEXT_OBS)):
        # The first observation is 1, and there is nothing but zeros before it.
        assert torch.equal(batch[column], (newest[:, None] - back).clamp(min=0.0))


def test_sac_learns_from_observations_stacked_in_the_learner() -> None:
    config = (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(
            env_to_module_connector=lambda env, spaces, device: FrameStackingEnvToModule(num_frames=3)
        )
        .training(
            learner_connector=lambda observations, actions: FrameStackingLearner(num_frames=3),
            num_steps_sampled_before_learning_starts=8,
            train_batch_size_per_learner=8,
        )
        .reporting(min_sample_timesteps_per_iteration=12)
        .rl_module(model_config={"fcnet_hiddens": [4], "head_fcnet_hiddens": [4]})
    )
    algorithm = config.build_algo()
    try:
        assert np.isfinite(algorithm.train()["learners"]["default_policy"]["total_loss"])
    finally:
        algorithm.stop()
