"""Replay buffers of several agents: counts and windows against a list of the episodes, priorities, state, and algorithms."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.sac import SACConfig
from skate.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.env.rollout import Rollout
from skate.rllib.utils.replay_buffers import (
    EpisodeReplayBuffer,
    MultiAgentEpisodeReplayBuffer,
    MultiAgentPrioritizedEpisodeReplayBuffer,
)
from skate.rllib.utils.replay_buffers.factory import make_replay_buffer
from skate.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    update_priorities_in_episode_replay_buffer,
)
from tests.rllib.test_multi_agent import Schedule
from tests.rllib.test_ppo import digest

MODULES = {"a": "p", "b": "q", "c": "q"}
KINDS = [MultiAgentEpisodeReplayBuffer, MultiAgentPrioritizedEpisodeReplayBuffer]


def new_episode(name: str) -> MultiAgentEpisode:
    return MultiAgentEpisode(
        name, agent_to_module_mapping_fn=lambda agent_id, episode, **kwargs: MODULES[agent_id]
    )


def chunks(seed: int, count: int, length: int) -> list[MultiAgentEpisode]:
    """Return parts of episodes whose agents come, skip steps and leave; every reward is a number of its own."""
    env = Schedule({"seed": seed})
    found = []
    for number in range(count):
        episode = new_episode(f"{seed}-{number}")
        observations, infos = env.reset()
        episode.add_env_reset(observations=observations, infos=infos)
        while not episode.is_done:
            actions = dict.fromkeys(sorted(episode.get_agents_to_act()), env.count % 3)
            seen, rewards, ended, cut, infos = env.step(actions)
            episode.add_env_step(seen, actions, rewards, infos, terminateds=ended, truncateds=cut)
            if len(episode) == length and not episode.is_done:
                following = episode.cut()
                found.append(episode)
                episode = following
        found.append(episode)
    return found


class Stored:
    """The episodes that a buffer should have, as lists of the agents' steps."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.env_steps: dict[str, int] = {}
        self.steps: dict[tuple[str, str], list[tuple[float, Any, float, Any, bool]]] = {}

    def add(self, given: list[MultiAgentEpisode]) -> None:
        gone: set[str] = set()
        for chunk in given:
            name, size = chunk.id_, len(chunk)
            while name not in gone and sum(self.env_steps.values()) + size > self.capacity:
                if not set(self.env_steps) - {name}:
                    break
                oldest = next(iter(self.env_steps))
                gone.add(oldest)
                del self.env_steps[oldest]
                self.steps = {key: held for key, held in self.steps.items() if key[0] != oldest}
            if name in gone:
                continue
            self.env_steps[name] = self.env_steps.get(name, 0) + size
            for agent, one in chunk.agent_episodes.items():
                held = self.steps.setdefault((name, agent), [])
                seen = one.get_observations()
                for at in range(len(one)):
                    last = at == len(one) - 1
                    held.append(
                        (
                            seen[at],
                            one.get_actions(at),
                            one.get_rewards(at),
                            seen[at + 1],
                            last and one.is_terminated,
                        )
                    )

    def windows(self, n_step: int) -> dict[tuple[str, str, float], tuple[Any, ...]]:
        """Return what a window has, by the episode, the agent and the number of the step that it begins with."""
        found = {}
        for (name, agent), steps in self.steps.items():
            for at, (seen, action, _, _, _) in enumerate(steps):
                part = steps[at : at + n_step]
                total = sum(0.5**k * each[2] for k, each in enumerate(part))
                found[name, agent, float(seen[0])] = (
                    action, total, part[-1][3].tolist(), part[-1][4], len(part),
                )  # fmt: skip
        return found


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
    length=st.integers(1, 6),
    capacity=st.integers(5, 40),
    at_once=st.integers(1, 5),
    n_step=st.integers(1, 4),
)
def test_a_buffer_has_what_a_list_of_the_episodes_has(
    kind: type[MultiAgentEpisodeReplayBuffer],
    seed: int,
    length: int,
    capacity: int,
    at_once: int,
    n_step: int,
) -> None:
    buffer, expected = kind(capacity, seed=seed), Stored(capacity)
    given_chunks = chunks(seed, 6, length)
    for start in range(0, len(given_chunks), at_once):
        part = given_chunks[start : start + at_once]
        expected.add(part)
        buffer.add(part if len(part) > 1 else part[0])
        assert [episode.id_ for episode in buffer.episodes] == list(expected.env_steps)
        assert len(buffer) == buffer.get_num_timesteps() == sum(expected.env_steps.values())
    by_module = {
        module: {key: steps for key, steps in expected.steps.items() if MODULES[key[1]] == module and steps}
        for module in ("p", "q")
    }
    for module, held in by_module.items():
        assert buffer.get_num_timesteps(module) == sum(map(len, held.values()))
        assert buffer.get_num_episodes(module) == len(held)
    assert buffer.get_num_agent_timesteps() == sum(map(len, expected.steps.values()))
    if not any(by_module.values()):
        return
    windows = expected.windows(n_step)
    longest = {module: max(map(len, held.values()), default=0) for module, held in by_module.items()}
    drawn = buffer.sample(60, n_step=n_step, gamma=0.5)
    found = set()
    for each in drawn:
        key = each.multi_agent_episode_id, each.agent_id, float(each.get_observations(0)[0])
        action, total, following, ended, count = windows[key]
        assert each.module_id == MODULES[each.agent_id] and each.get_actions(0) == action
        assert each.get_return() == pytest.approx(total)
        assert each.get_observations(-1).tolist() == following
        assert each.is_terminated == ended and each.get_extra_model_outputs("n_step", 0) == count
        assert count == n_step or longest[each.module_id] < n_step
        found.add(key)
    for module, held in by_module.items():
        assert sum(each.module_id == module for each in drawn) == (60 if held else 0)
    rows = buffer.sample(60, n_step=n_step, gamma=0.5, sample_episodes=False)
    assert all((each["n_step"] <= n_step).all() and len(each["obs"]) == 60 for each in rows.values())
    assert len(found) >= min(5, sum(window[-1] == n_step for window in windows.values()) // 3)


def turns(name: str, steps: int, **ends: bool) -> MultiAgentEpisode:
    """Return an episode in which a acts in every step and b in every second one; observations are the numbers of steps."""
    episode = new_episode(name)
    episode.add_env_reset(observations={"a": 0.0, "b": 0.0}, infos={"a": {"at": 0}})
    for at in range(1, steps + 1):
        acting = {"a": at - 1, "b": at - 1} if at % 2 else {"a": at - 1}
        seen = {"a": float(at)} if at % 2 else {"a": float(at), "b": float(at)}
        last = at == steps
        episode.add_env_step(
            seen,
            acting,
            dict.fromkeys(acting, 1.0),
            {"a": {"at": at}},
            terminateds={"__all__": last and ends.get("terminated", False)},
            truncateds={"__all__": last and ends.get("truncated", False)},
            extra_model_outputs={agent: {"size": action * 2} for agent, action in acting.items()},
        )
    return episode


@pytest.mark.parametrize("kind", KINDS)
def test_synchronized_rows_are_of_the_same_steps(kind: type[MultiAgentEpisodeReplayBuffer]) -> None:
    buffer = kind(100, seed=3)
    buffer.add([turns("x", 9, terminated=True), turns("y", 6, truncated=True)])
    rows = buffer.sample(50, n_step=2, gamma=0.5, replay_mode="synchronized")
    mine, other = rows["p"], rows["q"]
    # In each step a acts, and b does so in every second one; its own step takes two of the environment.
    assert (mine["new_obs"] == mine["obs"] + 2).all() and set(mine["n_step"]) == {2.0}
    assert (other["new_obs"] == other["obs"] + 2).all() and set(other["n_step"]) == {1.0}
    assert sorted(mine["obs"][mine["obs"] % 2 == 0]) == sorted(other["obs"]) and len(mine["obs"]) == 50
    assert (mine["rewards"] == 1.5).all() and (mine["weights"] == 1.0).all()
    assert set(buffer.sample(5, replay_mode="synchronized", modules_to_sample=["p"])) == {"p"}
    with pytest.raises(ValueError, match="n_step=20 is longer"):
        buffer.sample(1, n_step=20, replay_mode="synchronized")


def test_infos_and_outputs_are_there_if_asked_for() -> None:
    buffer = MultiAgentEpisodeReplayBuffer(100, seed=1)
    episode = turns("x", 4)
    buffer.add([episode[:2], episode[2:].to_numpy()])
    for each in buffer.sample(
        20, include_infos=True, include_extra_model_outputs=True, modules_to_sample={"p"}
    ):
        at = int(each.get_observations(0))
        assert each.get_infos() == [{"at": at}, {"at": at + 1}] and each.t_started == at
        assert each.get_extra_model_outputs("size", 0) == 2 * at
    plain = buffer.sample(1)[0]
    assert plain.get_infos() == [{}, {}] and set(plain.extra_model_outputs) == {"n_step", "weights"}
    assert plain.id_ in {one.id_ for one in episode.agent_episodes.values()}


def test_nested_observations_come_back_as_they_were() -> None:
    episode = new_episode("x")
    episode.add_env_reset(observations={"a": {"at": np.zeros(2)}})
    episode.add_env_step({"a": {"at": np.ones(2)}}, {"a": 1}, {"a": 1.0})
    buffer = MultiAgentEpisodeReplayBuffer()
    buffer.add(episode)
    (drawn,) = buffer.sample(1)
    assert drawn.get_observations(0)["at"].tolist() == [0, 0] and drawn.get_observations(-1)[
        "at"
    ].tolist() == [1, 1]


def test_steps_are_drawn_by_the_errors_of_their_module() -> None:
    buffer = MultiAgentPrioritizedEpisodeReplayBuffer(8, alpha=1.0, seed=2)
    buffer.add(turns("x", 4))
    before = buffer.sample(4, beta=1.0, sample_episodes=False)
    buffer.update_priorities({"p": np.where(before["p"]["obs"] == 2, 3.0, 1.0)})
    buffer.update_priorities(np.ones(4), module_id="q")
    rows = buffer.sample(3000, beta=1.0, sample_episodes=False)
    often = rows["p"]["obs"] == 2
    assert abs(often.mean() - 0.5) < 0.01 and abs((rows["q"]["obs"] == 2).mean() - 0.5) < 0.01
    assert np.allclose(rows["p"]["weights"][often], 1 / 3) and np.allclose(rows["p"]["weights"][~often], 1.0)
    # The new episode is as likely as the worst step, and evicts the other one, whose errors are dropped.
    buffer.add(turns("y", 6))
    errors: dict[str, Any] = {key: {"td_error": np.full(3000, 9.0)} for key in ("p", "q")}
    update_priorities_in_episode_replay_buffer(
        replay_buffer=buffer, td_errors={**errors, "__all_modules__": {}}
    )
    update_priorities_in_episode_replay_buffer(
        replay_buffer=MultiAgentEpisodeReplayBuffer(), td_errors=errors
    )
    rows = buffer.sample(600, sample_episodes=False)
    assert np.bincount(rows["p"]["obs"].astype(int)).tolist() == [100] * 6
    with pytest.raises(ValueError, match="2 errors were given for the 600 rows"):
        buffer.update_priorities({"p": np.ones(2)})
    with pytest.raises(ValueError, match="errors of which module"):
        buffer.update_priorities(np.ones(600))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_buffer_draws_what_the_first_one_draws(kind: type[MultiAgentEpisodeReplayBuffer]) -> None:
    first, second = kind(30, seed=3), kind(30)
    given_chunks = chunks(5, 8, 3)
    for chunk in given_chunks[:-4]:
        first.add(chunk)
    rows = first.sample(8, sample_episodes=False)
    first.update_priorities({key: np.arange(8.0) for key in rows})
    second.set_state(pickle.loads(pickle.dumps(first.get_state())))
    for chunk in given_chunks[-4:]:
        first.add(chunk)
        second.add(chunk)
        mine, theirs = (
            each.sample(16, n_step=(1, 3), beta=0.4, sample_episodes=False) for each in (first, second)
        )
        assert all(np.array_equal(mine[key][name], theirs[key][name]) for key in mine for name in mine[key])
    assert first.get_added_timesteps("q") == second.get_added_timesteps("q") > 0
    assert first.get_num_episodes_evicted() == second.get_num_episodes_evicted() > 0
    assert first.get_sampled_timesteps("p") == second.get_sampled_timesteps("p") == 8 + 4 * 16


def test_what_comes_and_goes_is_counted_by_agent_and_module() -> None:
    buffer = MultiAgentEpisodeReplayBuffer(8, seed=1)
    buffer.add(turns("x", 4, terminated=True))
    buffer.add(turns("y", 6))
    buffer.sample(12, n_step=2)
    found = buffer.get_metrics()
    assert (found["num_env_steps_added"], found["num_env_steps_evicted"]) == (10, 4)
    assert (found["num_episodes_added"], found["num_episodes_evicted"], found["num_episodes_stored"]) == (
        2,
        1,
        1,
    )
    assert found["num_agent_steps_added"] == {"a": 10, "b": 5} and found["num_agent_steps_evicted"] == {
        "a": 4,
        "b": 2,
    }
    assert found["num_module_episodes_added"] == {"p": 2, "q": 2}
    assert found["num_module_steps_sampled"] == {"p": 12, "q": 12} and found["num_env_steps_sampled"] == 24
    assert found["num_module_steps_per_sample"]["q"] <= 3 and 1 < found["module_actual_n_step"]["p"] <= 2
    assert found["num_module_steps_added_lifetime"] == {"p": 10, "q": 5}
    assert found["num_env_steps_stored"] == buffer.get_metrics()["num_env_steps_stored"] == 6


def test_mistakes_are_answered() -> None:
    buffer = MultiAgentEpisodeReplayBuffer()
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    with pytest.raises(TypeError, match=r"MultiAgentEpisodes, or fragments by module id, not \['int'\]"):
        buffer.add([3])
    rollout = Rollout({"obs": np.zeros((1, 1))}, np.ones((1, 1), bool), np.zeros((1, 1)))
    with pytest.raises(TypeError, match="which agents"):
        buffer.add({"p": [rollout]})
    buffer.add(turns("x", 2))
    for message, options in (
        ("two names", {"num_items": 1, "batch_size_B": 1}),
        ("batch_length_T=8", {"batch_length_T": 8}),
        ("independent, synchronized", {"replay_mode": "lockstep"}),
        (r"\['z'\], which have no steps", {"modules_to_sample": ["p", "z"]}),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.sample(**options)
    config = SimpleNamespace(
        replay_buffer_config={"type": "MultiAgentEpisodeReplayBuffer"}, is_multi_agent=False
    )
    with pytest.raises(ValueError, match="use EpisodeReplayBuffer"):
        make_replay_buffer(config)


class Opposites(MultiAgentEnv):
    """Two agents of one step each; what pays one of them costs the other."""

    def __init__(self, settings: Any = None) -> None:
        self.agents = self.possible_agents = ["left", "right"]
        self.observation_spaces = dict.fromkeys(self.agents, gym.spaces.Box(-1, 1, (1,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))
        super().__init__()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return dict.fromkeys(self.agents, np.zeros(1, np.float32)), {}

    def step(self, action_dict: dict[str, Any]) -> Any:
        rewards = {"left": 1.0 - action_dict["left"], "right": float(action_dict["right"])}
        return (
            dict.fromkeys(self.agents, np.zeros(1, np.float32)),
            rewards,
            {"__all__": True},
            {"__all__": False},
            {},
        )


def configured(config: Any, env: Any, mapping: Any) -> Any:
    return (
        config.environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .multi_agent(policies={"p", "q"}, policy_mapping_fn=mapping)
        .rl_module(model_config={"fcnet_hiddens": [16], "head_fcnet_hiddens": []})
        .reporting(min_sample_timesteps_per_iteration=160, min_time_s_per_iteration=0)
        .debugging(seed=2)
    )


def opposites(**training: Any) -> Any:
    config = configured(
        DQNConfig(), Opposites, lambda agent_id, episode, **kwargs: "p" if agent_id == "left" else "q"
    )
    return config.training(
        lr=1e-2, train_batch_size=32, num_steps_sampled_before_learning_starts=40, hiddens=[16],
        target_network_update_freq=50, epsilon=0.3, n_step=2, **training,
    )  # fmt: skip


def test_each_policy_of_dqn_learns_what_pays_its_agent() -> None:
    algorithm = opposites(
        replay_buffer_config={"type": "MultiAgentEpisodeReplayBuffer", "capacity": 500}
    ).build_algo()
    for _ in range(2):
        result = algorithm.train()
    assert type(algorithm.local_replay_buffer) is MultiAgentEpisodeReplayBuffer
    assert {"p", "q"} <= set(result["learners"]) and np.isfinite(result["learners"]["q"]["qf_loss"])
    assert result["replay_buffer"]["num_module_steps_added_lifetime"] == {"p": 320, "q": 320}
    for policy, best in (("p", 0), ("q", 1)):
        values = algorithm.get_module(policy)
        batch = {"obs": torch.zeros(1, 1)}
        assert int(values.forward_inference(batch)["actions"][0]) == best
    algorithm.stop()


def test_the_same_seed_and_a_restored_run_give_the_same_bits(tmp_path: Path) -> None:
    kinds = {"type": "MultiAgentPrioritizedEpisodeReplayBuffer", "alpha": 0.6, "beta": 0.4, "capacity": 100}
    first, second = (
        opposites(store_buffer_in_checkpoints=True, replay_buffer_config=kinds).build_algo() for _ in range(2)
    )
    for algorithm in (first, second):
        algorithm.train()
    assert digest(first) == digest(second)
    path = first.save_to_path(tmp_path / "saved")
    first.train()
    restored = Algorithm.from_checkpoint(path)
    assert len(restored.local_replay_buffer) == 100
    restored.train()
    assert digest(restored) == digest(first)
    for algorithm in (first, second, restored):
        algorithm.stop()


@pytest.mark.parametrize("shows", [False, True])
def test_fragments_with_and_without_episodes_fill_the_buffer_alike(shows: bool) -> None:
    env = make_multi_agent("Pendulum-v1")
    config = configured(
        SACConfig(), env, lambda agent_id, episode, **kwargs: "p" if agent_id == 0 else "q"
    ).environment(env, env_config={"num_agents": 2})
    config.training(num_steps_sampled_before_learning_starts=120, train_batch_size_per_learner=8)
    config.multi_agent(policies_to_train=["q"])
    seen: list[int] = []
    if shows:
        config.callbacks(on_sample_end=lambda samples, **kwargs: seen.append(len(samples)))
    algorithm = config.build_algo()
    result = algorithm.train()
    buffer = algorithm.local_replay_buffer
    assert type(buffer) is MultiAgentPrioritizedEpisodeReplayBuffer and bool(seen) is shows
    assert buffer.get_num_timesteps() == buffer.get_num_timesteps("p") == 160
    assert buffer.get_num_episodes() == 4 and buffer.get_num_episodes("q") == 4
    assert "policy_loss" not in result["learners"].get("p", {}) and np.isfinite(
        result["learners"]["q"]["policy_loss"]
    )
    rows = buffer.sample(50, n_step=3, gamma=1.0, sample_episodes=False)["q"]
    # Steps of different fragments are linked: almost every window has its three steps.
    assert (rows["n_step"] == 3).mean() > 0.8
    algorithm.stop()


def test_another_type_of_buffer_takes_the_place_of_all_its_settings() -> None:
    assert DQNConfig().training(replay_buffer_config={"capacity": 7}).replay_buffer_config["alpha"] == 0.6
    given = {"type": "EpisodeReplayBuffer"}
    assert DQNConfig().training(replay_buffer_config=given).replay_buffer_config == given
    assert issubclass(MultiAgentPrioritizedEpisodeReplayBuffer, EpisodeReplayBuffer)
