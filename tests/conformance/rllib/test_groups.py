"""Runners and learners of an algorithm by their groups, samples by hand, and the figures of DQN and SAC."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")
import numpy as np
import ray
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.testing.testing_learner import BaseTestingAlgorithmConfig
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.actor_manager import FaultAwareApply, FaultTolerantActorManager
from ray.rllib.utils.filter import RunningStat
from small_ppo import small


@pytest.fixture(scope="module")
def ppo(session: None) -> Iterator[Any]:
    config = small().env_runners(num_envs_per_env_runner=2).debugging(seed=3)
    algorithm = config.training(train_batch_size=64, minibatch_size=32, num_epochs=1).build_algo()
    algorithm.train()
    yield algorithm
    algorithm.stop()


def test_the_group_of_runners(ppo: Any) -> None:
    group = ppo.env_runner_group
    assert group.local_env_runner is ppo.env_runner
    assert (group.num_remote_env_runners(), group.num_healthy_remote_env_runners()) == (0, 0)
    assert list(group.healthy_env_runner_ids()) == []
    assert group.foreach_env_runner(lambda runner: runner.worker_index) == [0]
    assert group.foreach_env_runner(lambda runner: runner.num_envs, local_env_runner=True) == [2]
    assert group.foreach_env_runner(lambda runner: 1, local_env_runner=False) == []


def test_the_group_of_learners(ppo: Any) -> None:
    group = ppo.learner_group
    assert group.is_local and not group.is_remote and len(group) == 0
    weights = group.get_weights()
    assert set(weights) == {"default_policy"}
    mine = ppo.get_module().get_state()
    assert all(np.array_equal(weights["default_policy"][name], mine[name]) for name in mine)
    group.set_weights(
        {"default_policy": {name: value * 0 for name, value in weights["default_policy"].items()}}
    )
    assert all(not np.any(value) for value in group.get_weights()["default_policy"].values())
    group.set_weights(weights)
    state = group.get_state()
    assert set(state) == {"learner"} and {"rl_module", "optimizer", "weights_seq_no"} <= set(state["learner"])


@pytest.mark.parametrize("count", [1, 10, 33])
def test_steps_sampled_by_hand(ppo: Any, count: int) -> None:
    episodes = ppo.env_runner.sample(num_timesteps=count)
    assert all(type(each) is SingleAgentEpisode and each.is_numpy for each in episodes)
    # Both environments make a step each time.
    assert count <= sum(len(each) for each in episodes) <= count + 1
    for each in episodes:
        assert each.get_observations().shape == (len(each) + 1, 4)
        assert each.get_actions().shape == each.get_rewards().shape == (len(each),)
        assert {"action_dist_inputs", "action_logp"} <= set(each.extra_model_outputs)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("random_actions", [False, True])
def test_episodes_sampled_by_hand(ppo: Any, count: int, random_actions: bool) -> None:
    episodes = ppo.env_runner.sample(num_episodes=count, random_actions=random_actions)
    assert len(episodes) == count
    assert all(each.is_done and each.t_started == 0 and each.get_return() == len(each) for each in episodes)


def test_what_can_not_be_sampled(ppo: Any) -> None:
    for wanted in ({"num_timesteps": 3, "num_episodes": 1}, {"num_timesteps": -1}, {"num_episodes": -1}):
        with pytest.raises(AssertionError):
            ppo.env_runner.sample(**wanted)
    assert ppo.env_runner.sample(num_timesteps=0) == ppo.env_runner.sample(num_episodes=0) == []


@pytest.mark.parametrize("explore", [False, True])
def test_without_exploration_the_likeliest_action_is_taken(ppo: Any, explore: bool) -> None:
    episodes = ppo.env_runner.sample(num_timesteps=60, explore=explore, force_reset=True)
    likeliest = [
        action == np.argmax(logits)
        for each in episodes
        for action, logits in zip(
            each.get_actions(), each.get_extra_model_outputs("action_dist_inputs"), strict=True
        )
    ]
    assert all(likeliest) is not explore


def test_the_state_of_an_algorithm_has_these_parts(ppo: Any) -> None:
    state = ppo.get_state()
    assert {"env_runner", "learner_group", "training_iteration"} <= set(state)
    assert set(ppo.get_state(components="learner_group")) >= {"learner_group"}
    assert "learner_group" not in ppo.get_state(not_components="learner_group")


def test_a_part_is_restored_by_itself(ppo: Any, tmp_path: Path) -> None:
    path = Path(ppo.save_to_path(str(tmp_path / "saved")))
    before = ppo.learner_group.get_weights()
    ppo.train()
    iteration = ppo.iteration
    ppo.restore_from_path(
        str(path / "learner_group" / "learner" / "rl_module"), component="learner_group/learner/rl_module"
    )
    after = ppo.learner_group.get_weights()
    assert ppo.iteration == iteration
    assert all(
        np.array_equal(value, after["default_policy"][name])
        for name, value in before["default_policy"].items()
    )


def test_evaluation_on_the_runner_of_training(ppo: Any) -> None:
    assert ppo.evaluate()["env_runners"]["num_episodes"] == 10
    assert ppo.train()["env_runners"]["num_env_steps_sampled"] >= 64


@pytest.fixture(scope="module")
def of_two_runners(session: None) -> Iterator[Any]:
    """A PPO that normalizes the observations of two runners, after an iteration."""
    config = small().env_runners(
        num_env_runners=2, env_to_module_connector=lambda env, spaces, device: MeanStdFilter()
    )
    algorithm = config.build_algo()
    algorithm.train()
    yield algorithm
    algorithm.stop()


def test_runners_have_the_same_statistics_after_an_iteration(of_two_runners: Any) -> None:
    states = of_two_runners.env_runner_group.foreach_env_runner("get_state", local_env_runner=False)
    held = [state["env_to_module_connector"]["MeanStdFilter"][None]["running_stats"][0] for state in states]
    one, other = (RunningStat.from_state(each) for each in held)
    assert one.n == other.n >= 64
    assert np.allclose(one.mean, other.mean) and np.allclose(one.std, other.std) and np.all(one.std > 0)


def test_runners_are_called_without_waiting(of_two_runners: Any) -> None:
    group = of_two_runners.env_runner_group
    assert group.foreach_env_runner_async(lambda runner: runner.worker_index, "index") == 2
    assert group.num_in_flight_async_reqs("index") == 2
    found = group.fetch_ready_async_reqs(tags="index", timeout_seconds=None)
    assert sorted(found) == [(1, 1), (2, 2)]
    assert group.foreach_env_runner_async_fetch_ready("ping", tag="again") == []
    found = group.foreach_env_runner_async_fetch_ready("ping", tag="again", timeout_seconds=None)
    assert found == ["pong", "pong"]
    assert of_two_runners.restore_env_runners(group) == []
    with pytest.raises(ValueError, match="env"):
        of_two_runners.evaluate()


def equal(mine: Any, other: Any) -> bool:
    return all(np.array_equal(mine[name], other[name]) for name in mine)


def test_a_module_begins_as_its_spec_says(session: None, tmp_path: Path) -> None:
    saved = small().get_rl_module_spec(env=gym.make("CartPole-v1")).build()
    path = saved.save_to_path(str(tmp_path / "saved"))
    spec = RLModuleSpec(load_state_path=path, model_config={"fcnet_hiddens": [4]})
    algorithm = small().rl_module(rl_module_spec=spec).build_algo()
    assert equal(algorithm.learner_group.get_weights()["default_policy"], saved.get_state())
    assert equal(algorithm.get_module().get_state(), saved.get_state())
    algorithm.stop()


def test_some_of_several_modules_begin_as_their_spec_says(session: None, tmp_path: Path) -> None:
    kind = make_multi_agent("CartPole-v1")
    several = small().environment(kind, env_config={"num_agents": 2})
    several.multi_agent(
        policies={"p", "q", "r"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "pq"[agent_id]
    )
    one = small().get_rl_module_spec(env=gym.make("CartPole-v1"))
    specs = {name: dataclasses.replace(one) for name in "pqr"}
    torch.manual_seed(9)
    saved = MultiRLModuleSpec(rl_module_specs=specs).build()
    path = saved.save_to_path(str(tmp_path / "saved"))
    alone = one.build()
    specs["r"].load_state_path = alone.save_to_path(str(tmp_path / "alone"))
    several.rl_module(
        rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs, load_state_path=path, modules_to_load={"p"})
    )
    algorithm = several.build_algo()
    found = algorithm.learner_group.get_weights()
    assert equal(found["p"], saved["p"].get_state()) and not equal(found["q"], saved["q"].get_state())
    assert equal(found["r"], alone.get_state())
    algorithm.stop()


OF_REPLAY = ("num_env_steps_sampled_lifetime", "training_iteration", "num_training_step_calls_per_iteration")
OF_DQN = ("qf_loss", "qf_mean", "qf_max", "qf_min", "total_loss", "td_error_mean", "num_target_updates")
OF_SAC = (
    "qf_loss", "qf_mean", "qf_max", "qf_min", "total_loss", "policy_loss", "alpha_loss", "alpha_value",
    "log_alpha_value", "target_entropy", "td_error_mean", "qf_twin_loss",
)  # fmt: skip


@pytest.fixture(scope="module")
def replayed(session: None) -> Iterator[dict[str, dict[str, Any]]]:
    """The results of an iteration with some updates, of DQN and of SAC."""
    found = {}
    for config, env in ((DQNConfig(), "CartPole-v1"), (SACConfig(), "Pendulum-v1")):
        config.environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=1).debugging(seed=1)
        config.training(num_steps_sampled_before_learning_starts=20, train_batch_size_per_learner=8)
        config.reporting(min_sample_timesteps_per_iteration=60, min_time_s_per_iteration=0)
        config.rl_module(model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": [4]})
        algorithm = config.build_algo()
        found[type(algorithm).__name__] = algorithm.train()
        algorithm.stop()
    yield found


@pytest.mark.parametrize(
    ("name", "key"),
    [*(("DQN", key) for key in OF_DQN if key != "num_target_updates"), *(("SAC", key) for key in OF_SAC)],
)
def test_figures_of_learners_with_replay(replayed: Any, name: str, key: str) -> None:
    assert np.isfinite(float(replayed[name]["learners"]["default_policy"][key]))


@pytest.mark.parametrize("name", ["DQN", "SAC"])
@pytest.mark.parametrize("key", OF_REPLAY)
def test_figures_of_algorithms_with_replay(replayed: Any, name: str, key: str) -> None:
    assert replayed[name][key] >= 1


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_figures_of_buffers(replayed: Any, name: str) -> None:
    result = replayed[name]
    assert result["num_env_steps_sampled_lifetime"] >= 60
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] == result["num_env_steps_sampled_lifetime"]
    assert result["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] >= 8


def test_a_pool_of_actors_leaves_out_those_that_fail(session: None) -> None:
    # A class of its own, so that the actors need not import this file, and torch with it.
    class Counted(FaultAwareApply):
        """Counts its calls."""

        def __init__(self) -> None:
            self.config = SimpleNamespace(restart_failed_env_runners=False)
            self.count = 0

        def call(self, step: int = 1) -> int:
            self.count += step
            return self.count

        def fail(self) -> None:
            raise ValueError("no")

    made = ray.remote(num_cpus=0)(Counted)
    manager = FaultTolerantActorManager(actors=[made.remote() for _ in range(2)])
    assert manager.actor_ids() == [0, 1] and manager.num_healthy_actors() == 2
    found = manager.foreach_actor(lambda actor: actor.call(), remote_actor_ids=[0, 0, 1])
    assert [(each.actor_id, each.get()) for each in found.ignore_errors()] == [(0, 1), (0, 2), (1, 1)]
    found = manager.foreach_actor("call", kwargs={"step": 3}, return_obj_refs=True)
    assert [ray.get(each.get()) for each in found] == [5, 4]

    assert manager.foreach_actor_async(lambda actor: actor.call(), tag="a", remote_actor_ids=[0, 0, 0]) == 2
    assert manager.foreach_actor_async(lambda actor: actor.ping(), tag="b") == 2
    assert (manager.num_outstanding_async_reqs("a"), manager.num_outstanding_async_reqs()) == (2, 4)
    assert len(manager.fetch_ready_async_reqs(tags=["c"])) == 0
    of_b = manager.fetch_ready_async_reqs(tags="b", timeout_seconds=None)
    assert [(each.tag, each.get()) for each in of_b] == [("b", "pong")] * 2
    assert [each.get() for each in manager.fetch_ready_async_reqs(timeout_seconds=None)] == [6, 7]

    manager.set_actor_state(1, healthy=False)
    assert manager.healthy_actor_ids() == [0]
    assert [each.get() for each in manager.foreach_actor(lambda actor: actor.call())] == [8]
    assert manager.probe_unhealthy_actors() == [1] and not manager.is_actor_healthy(1)
    assert manager.probe_unhealthy_actors(mark_healthy=True) == [1] and manager.is_actor_healthy(1)
    assert manager.total_num_restarts() == 1
    (failed,) = manager.foreach_actor(lambda actor: actor.fail(), remote_actor_ids=[1])
    assert not failed.ok and isinstance(failed.get(), ray.exceptions.RayActorError)
    assert manager.healthy_actor_ids() == [0]
    with pytest.raises(ValueError, match="Unknown actor id: 7"):
        manager.is_actor_healthy(7)
    manager.remove_actor(0)
    assert manager.num_actors() == 1
    manager.clear()
    assert manager.actor_ids() == []


def test_the_learner_of_tests_learns_and_logs_its_mean_weight(session: None) -> None:
    env = gym.make("CartPole-v1")
    learner = BaseTestingAlgorithmConfig().training(lr=0.01).build_learner(env=env)
    assert type(learner.module["default_policy"]).__name__ == "DiscreteBCTorchModule"
    rows = {"obs": torch.rand(16, 4), "actions": torch.zeros(16, dtype=torch.int64)}
    losses = []
    for _ in range(5):
        batch = MultiAgentBatch({"default_policy": SampleBatch(rows)}, 16)
        result = learner.update(batch=batch)["default_policy"]
        losses.append(float(result["total_loss"].peek()))
        assert np.isfinite(float(result["mean_weight"].peek()))
    assert losses == sorted(losses, reverse=True)
