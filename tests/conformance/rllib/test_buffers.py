"""Replay buffers of episodes: what stays, what is drawn, by agent and by module, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import (
    EpisodeReplayBuffer,
    MultiAgentEpisodeReplayBuffer,
    MultiAgentPrioritizedEpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)

SEVERAL = [MultiAgentEpisodeReplayBuffer, MultiAgentPrioritizedEpisodeReplayBuffer]
ONE = [EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer]


def pair(name: str, steps: int, **ends: bool) -> MultiAgentEpisode:
    """Return an episode of two agents; observations count the steps, rewards are 1 for x and 2 for y."""
    seen = [{"x": float(at), "y": 100.0 + at} for at in range(steps + 1)]
    return MultiAgentEpisode(
        id_=name,
        observations=seen,
        actions=[{"x": at, "y": at} for at in range(steps)],
        rewards=[{"x": 1.0, "y": 2.0}] * steps,
        infos=[{"x": {"at": at}, "y": {}} for at in range(steps + 1)],
        terminateds=dict.fromkeys(("x", "y", "__all__"), ends.get("terminated", False)),
        truncateds=dict.fromkeys(("x", "y", "__all__"), ends.get("truncated", False)),
        agent_module_ids={"x": "p", "y": "q"},
        len_lookback_buffer=0,
    )


def alone(name: str, steps: int, **ends: bool) -> SingleAgentEpisode:
    return SingleAgentEpisode(
        id_=name,
        observations=[float(at) for at in range(steps + 1)],
        actions=list(range(steps)),
        rewards=[1.0] * steps,
        infos=[{"at": at} for at in range(steps + 1)],
        extra_model_outputs={"size": [2 * at for at in range(steps)]},
        len_lookback_buffer=0,
        **ends,
    )


@pytest.mark.parametrize("kind", [*SEVERAL, *ONE])
def test_the_oldest_episodes_go_as_wholes(kind: Any) -> None:
    make = pair if kind in SEVERAL else alone
    buffer, kept = kind(capacity=10), []
    for name, steps in (("a", 4), ("b", 5), ("c", 3), ("d", 20), ("e", 2)):
        buffer.add(make(name, steps))
        kept.append(([each.id_ for each in buffer.episodes], buffer.get_num_timesteps(), len(buffer)))
    assert kept == [(["a"], 4, 4), (["a", "b"], 9, 9), (["b", "c"], 8, 8), (["d"], 20, 20), (["e"], 2, 2)]
    assert (buffer.get_num_episodes(), buffer.get_num_episodes_evicted()) == (1, 4)
    assert buffer.get_added_timesteps() == 34


@pytest.mark.parametrize("kind", [*SEVERAL, *ONE])
def test_a_later_part_continues_an_episode(kind: Any) -> None:
    whole = (pair if kind in SEVERAL else alone)("a", 6)
    buffer = kind(capacity=10)
    buffer.add([whole[:2]])
    buffer.add([whole[2:]])
    assert (buffer.get_num_episodes(), buffer.get_num_timesteps()) == (1, 6)


@pytest.mark.parametrize("kind", SEVERAL)
def test_steps_are_counted_by_module(kind: Any) -> None:
    buffer = kind(capacity=10)
    for name, steps in (("a", 4), ("b", 5), ("c", 3)):
        buffer.add(pair(name, steps))
    assert sorted(buffer.get_module_ids()) == ["p", "q"]
    assert (buffer.get_num_agent_timesteps(), buffer.get_added_agent_timesteps()) == (16, 24)
    for module in ("p", "q"):
        assert (buffer.get_num_timesteps(module), buffer.get_added_timesteps(module)) == (8, 12)
        assert (buffer.get_num_episodes(module), buffer.get_num_episodes_evicted(module)) == (2, 1)
        assert buffer.get_sampled_timesteps(module) == 0
    buffer.sample(num_items=6)
    assert buffer.get_sampled_timesteps() == buffer.get_sampled_timesteps("q") == 6


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("n_step", [1, 3])
def test_rows_are_episodes_of_one_step(kind: Any, n_step: int) -> None:
    buffer = kind(capacity=100)
    buffer.add([pair("a", 8, terminated=True), pair("b", 5, truncated=True)])
    drawn = buffer.sample(num_items=40, n_step=n_step, gamma=0.5)
    assert [each.module_id for each in drawn] == ["p"] * 40 + ["q"] * 40
    for each in drawn:
        first, last = float(each.get_observations(0)), float(each.get_observations(-1))
        worth = 1.0 if each.module_id == "p" else 2.0
        assert len(each) == 1 and last == first + n_step and each.get_actions(0) == first % 100
        assert each.get_rewards(0) == pytest.approx(worth * sum(0.5**k for k in range(n_step)))
        at_end = last % 100 == (8 if each.multi_agent_episode_id == "a" else 5)
        assert (each.is_terminated, each.is_truncated) == (
            at_end and each.multi_agent_episode_id == "a",
            at_end and each.multi_agent_episode_id == "b",
        )
        assert each.get_extra_model_outputs("n_step", 0) == n_step
        assert each.agent_id == ("x" if each.module_id == "p" else "y") and each.t_started == first % 100


@pytest.mark.parametrize("kind", SEVERAL)
def test_only_the_named_modules_are_drawn(kind: Any) -> None:
    buffer = kind(capacity=100)
    buffer.add(pair("a", 8))
    drawn = buffer.sample(num_items=5, modules_to_sample=["q"], include_infos=True)
    assert {each.module_id for each in drawn} == {"q"} and len(drawn) == 5
    (one,) = buffer.sample(num_items=1, modules_to_sample=["p"], include_infos=True)
    at = int(one.get_observations(0))
    assert list(one.get_infos()) == [{"at": at}, {"at": at + 1}]


def test_a_prioritized_buffer_draws_episodes_with_infos_and_outputs() -> None:
    buffer = PrioritizedEpisodeReplayBuffer(capacity=100)
    buffer.add(alone("a", 8))
    drawn = buffer.sample(
        num_items=20, n_step=2, gamma=1.0, include_infos=True, include_extra_model_outputs=True
    )
    for each in drawn:
        at = int(each.get_observations(0))
        assert float(each.get_observations(-1)) == at + 2 and each.get_rewards(0) == 2.0
        assert list(each.get_infos()) == [{"at": at}, {"at": at + 2}]
        assert each.get_extra_model_outputs("size", 0) == 2 * at


@pytest.mark.parametrize("kind", [PrioritizedEpisodeReplayBuffer, MultiAgentPrioritizedEpisodeReplayBuffer])
def test_rows_with_greater_errors_are_drawn_more_often(kind: Any) -> None:
    several = kind in SEVERAL
    buffer = kind(capacity=100, alpha=1.0)
    buffer.add((pair if several else alone)("a", 10))
    for _ in range(20):
        drawn = [each for each in buffer.sample(num_items=10) if each.module_id != "q"]
        errors = np.array([5.0 if float(each.get_observations(0)) == 3 else 0.01 for each in drawn])
        buffer.update_priorities(errors, "p" if several else None)
        if several:
            buffer.update_priorities(np.ones(10), "q")
    drawn = [each for each in buffer.sample(num_items=100) if each.module_id != "q"]
    assert sum(float(each.get_observations(0)) == 3 for each in drawn) > 70


@pytest.mark.parametrize("kind", [*SEVERAL, *ONE])
def test_another_buffer_takes_the_state(kind: Any) -> None:
    make = pair if kind in SEVERAL else alone
    first, second = kind(capacity=10), kind(capacity=10)
    for name, steps in (("a", 4), ("b", 5), ("c", 3)):
        first.add(make(name, steps))
    second.set_state(first.get_state())
    for name in (
        "get_num_episodes", "get_num_episodes_evicted", "get_num_timesteps", "get_added_timesteps", "get_sampled_timesteps"
    ):  # fmt: skip
        assert getattr(first, name)() == getattr(second, name)()
    assert [each.id_ for each in second.episodes] == ["b", "c"]
    # Ray's prioritized buffer of several agents has lost which rows are to go.
    if kind is not MultiAgentPrioritizedEpisodeReplayBuffer:
        second.add(make("d", 6))
        assert [each.id_ for each in second.episodes] == ["c", "d"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"capacity": 7},
            {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 7, "alpha": 0.6, "beta": 0.4},
        ),
        ({"type": "MultiAgentEpisodeReplayBuffer"}, {"type": "MultiAgentEpisodeReplayBuffer"}),
        (
            {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.1},
            {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 50000, "alpha": 0.1, "beta": 0.4},
        ),
    ],
)
def test_another_type_replaces_the_settings_of_a_buffer(given: Any, expected: Any) -> None:
    assert DQNConfig().training(replay_buffer_config=given).replay_buffer_config == expected


def test_parts_of_several_steps_are_drawn_as_episodes() -> None:
    buffer = EpisodeReplayBuffer(capacity=100)
    buffer.add([alone("a", 8, terminated=True), alone("b", 5)])
    parts = buffer.sample(
        num_items=120, batch_length_T=4, n_step=1, sample_episodes=True, lookback=1, include_extra_model_outputs=True
    )  # fmt: skip
    assert 120 <= sum(len(part) + 1 for part in parts) < 125
    for part in parts:
        start, steps = part.t_started, len(part)
        assert list(part.get_observations()) == [float(at) for at in range(start, start + steps + 1)]
        assert list(part.get_extra_model_outputs("size")) == [2 * at for at in range(start, start + steps)]
        assert part.is_terminated == (part.id_ == "a" and start + steps == 8)
        assert steps == 4 or start + steps == {"a": 8, "b": 5}[part.id_]
        assert part.observations.lookback == int(start > 0)
