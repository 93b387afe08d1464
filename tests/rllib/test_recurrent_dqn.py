"""DQN with a memory: sequences that a buffer draws, their loss, and a training that continues after a restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from skate.rllib.algorithms.sac import SACConfig
from skate.rllib.core.columns import Columns
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.replay_buffers import EpisodeReplayBuffer

CELLS = 3
LENGTH = 4


class Recall(gym.Env[Any, Any]):
    """Shows a digit in the first of three steps, and asks for it in the last one."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.digit = self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.digit, self.time = int(self.np_random.integers(2)), 0
        return np.array([2 * self.digit - 1, 0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        over = self.time == 3
        reward = float(over and action == self.digit)
        return np.array([0, float(self.time == 2)], np.float32), reward, over, False, {}


def config_of(**training: Any) -> DQNConfig:
    return (
        DQNConfig()
        .environment(Recall)
        .env_runners(rollout_fragment_length=4)
        .training(
            **{
                "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 600},
                "num_steps_sampled_before_learning_starts": 60,
                "train_batch_size_per_learner": 48,
                "target_network_update_freq": 60,
                "epsilon": [(0, 1.0), (900, 0.0)],
                "lr": 0.02,
                **training,
            }
        )
        .rl_module(
            model_config={
                "use_lstm": True,
                "max_seq_len": LENGTH,
                "lstm_cell_size": CELLS,
                "fcnet_hiddens": [4],
            }
        )
        .reporting(min_sample_timesteps_per_iteration=300)
        .debugging(seed=3)
    )


def test_parts_of_episodes_begin_with_the_memory_before_them() -> None:
    buffer = EpisodeReplayBuffer(capacity=100, seed=1)
    for name, steps in (("long", 8), ("short", 2)):
        episode = SingleAgentEpisode(
            id_=name,
            observations=[float(at) for at in range(steps + 1)],
            actions=list(range(steps)),
            rewards=[1.0] * steps,
            extra_model_outputs={"state_out": [{"h": np.array([float(at)])} for at in range(steps)]},
            terminated=True,
            len_lookback_buffer=0,
        )
        for part in (episode[:1], episode[1:]):
            buffer.add(part)
    parts = buffer.sample(
        200, batch_length_T=3, min_batch_length_T=2, sample_episodes=True, to_numpy=True, include_extra_model_outputs=True
    )  # fmt: skip
    assert 200 <= sum(len(part) + 1 for part in parts) < 204
    assert {(part.id_, part.t_started, len(part)) for part in parts} == {
        *(("long", start, 3) for start in range(6)), ("long", 6, 2), ("short", 0, 2),
    }  # fmt: skip
    for part in parts:
        start, steps = part.t_started, len(part)
        assert part.get_observations().tolist() == list(range(start, start + steps + 1))
        assert part.is_terminated == (start + steps == {"long": 8, "short": 2}[part.id_])
        held = part.extra_model_outputs["state_out"]
        assert held.lookback == (start > 0)
        if start:
            assert held.get(-1, neg_index_as_lookback=True)["h"] == start - 1


def test_the_loss_is_that_of_single_steps_in_turn() -> None:
    algorithm = config_of(burn_in_len=1).build_algo()
    learner = algorithm.learner_group._learner
    module = learner.module["default_policy"]
    torch.manual_seed(2)
    state = {name: torch.randn(2, 1, CELLS) for name in ("h", "c")}
    seen = torch.randn(2, LENGTH + 1, 2)
    steps = torch.tensor([[True] * LENGTH, [True, True, False, False]])
    batch = {
        Columns.OBS: seen[:, :-1],
        Columns.NEXT_OBS: seen[:, 1:],
        Columns.ACTIONS: torch.randint(2, (2, LENGTH)),
        Columns.REWARDS: torch.randn(2, LENGTH),
        Columns.TERMINATEDS: torch.tensor([[False, False, False, True], [False] * LENGTH]),
        Columns.LOSS_MASK: steps,
        Columns.STATE_IN: state,
    }
    for target in (module._target_encoder, module._target_af, module._target_vf):
        for parameter in target.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape)

    def values(compute: Any) -> torch.Tensor:
        memory, found = state, []
        for at in range(LENGTH + 1):
            out = compute({Columns.OBS: seen[:, at : at + 1], Columns.STATE_IN: memory})
            found.append(out[QF_PREDS])
            memory = out[Columns.STATE_OUT]
        return torch.cat(found, 1)

    with torch.no_grad():
        ours, slow = values(module.compute_q_values), values(module.forward_target)
    errors = []
    for row, at in ((0, 1), (0, 2), (0, 3), (1, 1)):
        best = ours[row, at + 1].argmax()
        following = (
            0.0 if batch[Columns.TERMINATEDS][row, at] else algorithm.config.gamma * slow[row, at + 1, best]
        )
        errors.append(
            ours[row, at, batch[Columns.ACTIONS][row, at]] - batch[Columns.REWARDS][row, at] - following
        )
    expected = torch.nn.functional.huber_loss(torch.stack(errors), torch.zeros(4))
    found = learner.compute_loss_for_module(
        module_id="default_policy", config=algorithm.config, batch=batch, fwd_out=module.forward_train(batch)
    )
    torch.testing.assert_close(found.detach(), expected)
    assert found.requires_grad
    algorithm.stop()


def test_a_training_continues_after_a_restore(tmp_path: Path) -> None:
    algorithm = config_of().reporting(min_sample_timesteps_per_iteration=100).build_algo()
    algorithm.train()
    path = algorithm.save_to_path(str(tmp_path))
    weights = algorithm.get_module().get_state()
    algorithm.stop()
    restored = Algorithm.from_checkpoint(path)
    learned = restored.train()["learners"]["default_policy"]
    assert learned["num_module_steps_trained"] > 0
    recurrent = "encoder.lstm.weight_hh_l0"
    assert not np.array_equal(restored.get_module().get_state()[recurrent], weights[recurrent])
    memory = {name: np.zeros((1, CELLS), np.float32) for name in ("h", "c")}
    _, memory, _ = restored.compute_single_action(np.zeros(2, np.float32), memory, explore=False)
    assert memory["h"].shape == (1, CELLS)
    restored.stop()


@pytest.mark.long
def test_a_memory_learns_what_was_shown_before() -> None:
    algorithm = config_of().build_algo()
    for _ in range(12):
        result = algorithm.train()
    algorithm.stop()
    # Without a memory the digit is guessed in half of the episodes.
    assert result["env_runners"]["episode_return_mean"] > 0.85


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (config_of(n_step=3), "n_step must be 1"),
        (config_of(burn_in_len=LENGTH), "leaves no step"),
        (config_of(replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer"}), "EpisodeReplayBuffer of one"),
        (SACConfig().environment("CartPole-v1").rl_module(model_config={"use_lstm": True}), "use_lstm=False"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_with_a_memory(config: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config.build_algo()
