"""Both ways of sampling with several agents give the same bits: straight into columns, and with episodes."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
from rllib.test_multi_agent import Modules, Schedule, many
from rllib.tiny_module import Choice, Gauss, TinyModule

from skate.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from skate.rllib.utils.error import MultiAgentEnvError
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger

BOX = gym.spaces.Box(-1, 1e6, (2,), np.float32)
NESTED = gym.spaces.Dict({"at": gym.spaces.Discrete(12), "name": gym.spaces.Box(0, 1e6, (1,), np.float64)})


class Mixed(Schedule):
    """The same schedule; agents have spaces of their own, rewards of several types, and some leave without a last observation."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.observation_spaces = {"a": BOX, "b": NESTED, "c": gym.spaces.Discrete(12)}
        self.action_spaces = {
            "a": gym.spaces.Discrete(3),
            "b": gym.spaces.Box(-2, 2, (2,), np.float32),
            "c": gym.spaces.Discrete(2),
        }

    def observe(self, agents: list[str]) -> dict[str, Any]:
        kinds = {
            "a": np.array([self.at, 1.5], np.float32),
            "b": {"at": self.at, "name": np.array([0.1])},
            "c": self.at,
        }
        return {agent: kinds[agent] for agent in agents}

    def step(self, action_dict: dict[str, Any]) -> Any:
        if "b" in action_dict:
            assert action_dict["b"].shape == (2,) and np.abs(action_dict["b"]).max() <= 2
        seen, rewards, terminateds, truncateds, infos = super().step(action_dict)
        rewards = {agent: np.float32(reward) if agent == "b" else reward for agent, reward in rewards.items()}
        for agent in [
            each for each in terminateds if each in seen and each == "a" and not terminateds["__all__"]
        ]:
            del seen[agent]  # it ends without a last observation
            truncateds[agent] = True
        return seen, rewards, terminateds, truncateds, infos


class Scripted(TinyModule):
    """Chooses actions itself, as a fixed opponent does."""

    def forward_exploration(self, batch: dict[str, Any], t: int = 0) -> dict[str, Any]:
        self.kinds = batch["obs"].dtype
        return {"actions": batch["obs"].long().reshape(len(batch["obs"]), -1)[:, 0] % 2}

    forward_inference = forward_exploration


def mixed(lanes: int, seed: int) -> SimpleNamespace:
    made = many(Mixed, env_config={"seed": seed})
    made.num_envs_per_env_runner = lanes
    made.policies = {"p": None, "q": None, "s": None}
    made.policy_mapping_fn = lambda agent_id, episode, **kwargs: {"a": "p", "b": "q", "c": "s"}[agent_id]
    modules = {"p": TinyModule(2, 3, Choice), "q": TinyModule(13, 2, Gauss), "s": Scripted(1, 2, Choice)}
    made._rl_module_spec = SimpleNamespace(
        module_class=None,
        rl_module_specs={
            "s": SimpleNamespace(module_class=Scripted),
            "q": SimpleNamespace(module_class=None),
        },
    )
    made.get_multi_rl_module_spec = lambda spaces, inference_only: SimpleNamespace(
        build=lambda: Modules(modules)
    )
    return made


def shared(lanes: int, seed: int) -> SimpleNamespace:
    made = many(env_config={"seed": seed})
    made.num_envs_per_env_runner = lanes
    return made


def as_bytes(sampled: dict[str, Any]) -> dict[str, Any]:
    """Everything in the fragments of a sample, with types and shapes."""
    return {
        module_id: [
            {
                name: (column.dtype.str, column.shape, column.tobytes())
                for name, column in {**each.columns, "valid": each.valid, "next_obs": each.next_obs}.items()
            }
            for each in rollouts
        ]
        for module_id, rollouts in sampled.items()
    }


def figures(runner: MultiAgentEnvRunner) -> dict[str, Any]:
    """Metrics that both ways have, without times."""
    found = MetricsLogger.peek_results(runner.get_metrics())
    return {
        name: value
        for name, value in found.items()
        if name != "sample"
        and not any(word in name for word in ("timer", "time", "duration", "connector", "throughput"))
    }


def general(settings: SimpleNamespace) -> SimpleNamespace:
    settings.callbacks_on_episode_end = lambda **kwargs: None
    return settings


@pytest.mark.parametrize("make", [shared, mixed])
@pytest.mark.parametrize(("lanes", "seed"), [(1, 0), (1, 1), (2, 2), (3, 3), (2, 4), (1, 5)])
def test_both_ways_are_equal_bit_for_bit(make: Any, lanes: int, seed: int) -> None:
    fast, slow = (
        MultiAgentEnvRunner(config=each) for each in (make(lanes, seed), general(make(lanes, seed)))
    )
    assert fast.samples_columns and not slow.samples_columns
    for steps, options in ((7, {}), (1, {}), (12, {"explore": False}), (1, {}), (30, {})):
        one, other = (as_bytes(runner.sample_rollout(steps, **options)) for runner in (fast, slow))
        assert one.keys() == other.keys() and one == other
        assert figures(fast) == figures(slow)
    assert fast._generator.get_state().equal(slow._generator.get_state())


@pytest.mark.parametrize("seed", [0, 3])
def test_both_ways_act_at_random_alike(seed: int) -> None:
    fast, slow = (MultiAgentEnvRunner(config=each) for each in (shared(2, seed), general(shared(2, seed))))
    for _ in range(3):
        one, other = (as_bytes(runner.sample_rollout(9, random_actions=True)) for runner in (fast, slow))
        assert one == other and any("actions" in each for parts in one.values() for each in parts)


def test_a_restored_runner_continues_with_the_same_bits() -> None:
    for make in (shared, mixed):
        first = MultiAgentEnvRunner(config=make(2, 6))
        first.sample_rollout(8)
        second = MultiAgentEnvRunner(config=make(2, 9))
        second.set_lane_state(pickle.loads(pickle.dumps(first.get_lane_state())))
        for _ in range(3):
            assert as_bytes(first.sample_rollout(8)) == as_bytes(second.sample_rollout(8))


def test_samples_of_episodes_begin_anew_between_columns() -> None:
    runner = MultiAgentEnvRunner(config=shared(2, 1))
    runner.sample_rollout(5)
    assert all(episode.is_done for episode in runner.sample(num_episodes=2))
    found = runner.sample_rollout(5)
    assert {0.0} <= set(np.concatenate([each.columns["obs"][0, :, 0] for each in found["q"]]).tolist())
    assert sum(len(episode) for episode in runner.sample(num_timesteps=10)) == 10


def test_an_agent_that_ended_may_not_come_back() -> None:
    class Ghost(Schedule):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.at = 0
            return self.observe(["a", "b"]), {}

        def step(self, action_dict: dict[str, Any]) -> Any:
            self.at += 1
            return self.observe(["a", "b"]), {}, {"a": self.at == 1, "__all__": False}, {"__all__": False}, {}

    messages = []
    for settings in (many(Ghost), general(many(Ghost))):
        with pytest.raises(MultiAgentEnvError, match="ended at step 1 of the environment") as raised:
            MultiAgentEnvRunner(config=settings).sample_rollout(4)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_memory_and_callbacks_take_the_general_way() -> None:
    settings = shared(1, 0)
    settings.callbacks_on_sample_end = lambda **kwargs: None
    assert not MultiAgentEnvRunner(config=settings).samples_columns
    runner = MultiAgentEnvRunner(config=shared(1, 0))
    assert runner.samples_columns
    runner.module.is_stateful = lambda: True
    assert not runner.samples_columns


def test_an_unknown_module_is_named() -> None:
    config = shared(1, 0)
    config.policy_mapping_fn = lambda agent_id, episode, **kwargs: "absent"
    runner = MultiAgentEnvRunner(config=config)
    assert runner.samples_columns
    with pytest.raises(ValueError, match=r"maps agent '.' to module 'absent'; there are: .*`policies`"):
        runner.sample_rollout(4)
    runner.stop()
