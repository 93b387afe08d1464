"""Training with a user's own modules, connectors, runners, learners and callbacks, and with several agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")
import numpy as np
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from small_ppo import small


class Mine(TorchRLModule, ValueFunctionAPI):
    """A module of a user."""

    def setup(self) -> None:
        self.layer = torch.nn.Linear(self.observation_space.shape[0], 5)
        self.policy, self.value = torch.nn.Linear(5, self.action_space.n), torch.nn.Linear(5, 1)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        embeddings = torch.relu(self.layer(batch[Columns.OBS]))
        return {Columns.ACTION_DIST_INPUTS: self.policy(embeddings), Columns.EMBEDDINGS: embeddings}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        if embeddings is None:
            embeddings = torch.relu(self.layer(batch[Columns.OBS]))
        return self.value(embeddings).squeeze(-1)


class Scaled(ConnectorV2):
    """Divides observations, in the episodes themselves, and counts what it has seen."""

    def __init__(self, *args: Any, by: float = 2.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by, self.count = by, 0

    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, explore: Any = None, **kwargs: Any
    ) -> Any:
        for episode in self.single_agent_episode_iterator(episodes):
            self.count += 1
            episode.set_observations(at_indices=-1, new_data=episode.get_observations(-1) / self.by)
        return batch

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class Greedy(ConnectorV2):
    """Sends the first action always."""

    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, explore: Any = None, **kwargs: Any
    ) -> Any:
        self.foreach_batch_item_change_in_place(batch, Columns.ACTIONS, lambda action, *ids: 0 * action)
        return batch


class OfLearner(ConnectorV2):
    """Counts the batches on their way to the learner."""

    calls = 0

    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, explore: Any = None, **kwargs: Any
    ) -> Any:
        OfLearner.calls += 1
        return batch


class Runner(SingleAgentEnvRunner):
    """A runner of a user."""

    def sample(self, **kwargs: Any) -> Any:
        episodes = super().sample(**kwargs)
        self.metrics.log_value("steps_of_mine", sum(len(each) for each in episodes), reduce="sum")
        return episodes


class Learner(PPOTorchLearner):
    """A learner of a user: the loss of PPO, and a part of its own."""

    def build(self) -> None:
        super().build()
        self.built = True

    def compute_loss_for_module(self, *, module_id: Any, config: Any, batch: Any, fwd_out: Any) -> Any:
        loss = super().compute_loss_for_module(
            module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
        )
        assert self.built and self.module[module_id] is not None
        extra = config.learner_config_dict["weight"] * torch.mean(fwd_out[Columns.ACTION_DIST_INPUTS] ** 2)
        self.metrics.log_value((module_id, "extra_loss"), extra.item(), window=1)
        return loss + extra


def learned_by(algorithm: Any) -> dict[str, Any]:
    result = algorithm.train()
    assert result["training_iteration"] == 1
    return result


def built(config: Any, request: Any) -> Any:
    algorithm = config.build_algo()
    request.addfinalizer(algorithm.stop)
    return algorithm


def test_a_module_of_a_user(session: None, request: Any, tmp_path: Path) -> None:
    algorithm = built(small().rl_module(rl_module_spec=RLModuleSpec(module_class=Mine)), request)
    before = algorithm.get_module().get_state()
    learned = learned_by(algorithm)["learners"]["default_policy"]
    assert learned["num_trainable_parameters"] == 4 * 5 + 5 + 5 * 2 + 2 + 5 + 1
    after = algorithm.get_module().get_state()
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    path = Path(algorithm.save_to_path(str(tmp_path / "saved")))
    module = RLModule.from_checkpoint(
        str(path / "learner_group" / "learner" / "rl_module" / "default_policy")
    )
    assert type(module) is Mine and np.array_equal(module.get_state()["layer.bias"], after["layer.bias"])


def test_a_default_module_with_changes(session: None, request: Any) -> None:
    class Changed(DefaultPPOTorchRLModule):
        """Halves the logits of exploration."""

        def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            out = super()._forward_exploration(batch, **kwargs)
            return {**out, Columns.ACTION_DIST_INPUTS: out[Columns.ACTION_DIST_INPUTS] / 2}

    spec = RLModuleSpec(module_class=Changed, model_config={"fcnet_hiddens": [3], "vf_share_layers": True})
    algorithm = built(small().rl_module(rl_module_spec=spec), request)
    module = algorithm.get_module()
    assert type(module) is Changed
    assert module.get_state()["encoder.encoder.net.mlp.0.weight"].shape == (3, 4)
    batch = {Columns.OBS: torch.ones(1, 4)}
    whole = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
    assert torch.allclose(module.forward_exploration(batch)[Columns.ACTION_DIST_INPUTS] * 2, whole)
    learned_by(algorithm)


def test_connectors_of_a_user(session: None, request: Any, tmp_path: Path) -> None:
    OfLearner.calls = 0
    config = small().env_runners(
        env_to_module_connector=lambda env, spaces, device: [Scaled(by=4.0), MeanStdFilter()],
        module_to_env_connector=lambda env, spaces: Greedy(),
    )
    config.training(learner_connector=lambda observations, actions: OfLearner())
    algorithm = built(config, request)
    result = learned_by(algorithm)
    pipeline = algorithm.env_runner._env_to_module
    names = [type(each).__name__ for each in pipeline.connectors]
    assert names[:2] == ["Scaled", "MeanStdFilter"] and OfLearner.calls >= 1
    # With one action always the pole falls after some ten steps.
    assert result["env_runners"]["episode_len_max"] < 13
    assert pipeline[Scaled][0].count >= 64
    path = algorithm.save_to_path(str(tmp_path / "saved"))
    again = Algorithm.from_checkpoint(path)
    request.addfinalizer(again.stop)
    ours, theirs = (each.env_runner._env_to_module.get_state() for each in (algorithm, again))
    assert set(ours) == set(theirs) == {"Scaled", "MeanStdFilter"} and ours["Scaled"] == theirs["Scaled"]
    assert [
        each.env_runner._env_to_module[MeanStdFilter][0].get_state()[None]["running_stats"][0]["num_pushes"]
        for each in (algorithm, again)
    ] == [pipeline[Scaled][0].count] * 2
    folder = Path(path) / "env_runner" / "env_to_module_connector"
    assert (folder / "Scaled" / "state.pkl").is_file() and (folder / "MeanStdFilter" / "state.pkl").is_file()


def test_a_registered_environment(session: None, request: Any) -> None:
    def create(context: Any) -> Any:
        assert context.worker_index == 0 and context.get("nothing") is None
        return gym.make("CartPole-v1", max_episode_steps=context["length"])

    ray.tune.register_env("mine-of-conformance", create)
    config = small().environment("mine-of-conformance", env_config={"length": 5})
    algorithm = built(config, request)
    assert learned_by(algorithm)["env_runners"]["episode_len_max"] == 5


def test_a_runner_and_a_learner_of_a_user(session: None, request: Any) -> None:
    config = small().env_runners(env_runner_cls=Runner)
    config.training(learner_class=Learner, learner_config_dict={"weight": 0.5})
    algorithm = built(config, request)
    result = learned_by(algorithm)
    assert type(algorithm.env_runner) is Runner and 64 <= result["env_runners"]["steps_of_mine"] < 70
    learned = result["learners"]["default_policy"]
    assert learned["extra_loss"] >= 0
    kinds = algorithm.learner_group.foreach_learner(lambda learner: type(learner).__name__)
    assert [getattr(each, "get", lambda each=each: each)() for each in kinds] == ["Learner"]


CALLS: list[str] = []


class First(RLlibCallback):
    """Writes what is called, of an algorithm and of episodes."""

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        CALLS.append("first on_algorithm_init")

    def on_episode_start(self, *, episode: Any, env_index: int, **kwargs: Any) -> None:
        assert len(episode) == 0 and env_index == 0 and "env_runner" in kwargs
        CALLS.append("first on_episode_start")

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        CALLS.append("first on_train_result")
        result["mine"] = algorithm.iteration


class Second(RLlibCallback):
    """Logs a figure, and writes what is called."""

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        CALLS.append("second on_algorithm_init")

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        metrics_logger.log_value("longest", len(episode), reduce="max", window=100)
        metrics_logger.log_value(("deep", "figure"), 1, reduce="sum")

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        CALLS.append("second on_checkpoint_loaded")


def test_several_callbacks_run_in_their_order(session: None, request: Any, tmp_path: Path) -> None:
    CALLS.clear()
    config = small().callbacks([First, Second])
    config.callbacks(on_sample_end=lambda *, samples, **kwargs: CALLS.append(f"function, {len(samples) > 0}"))
    algorithm = built(config, request)
    assert CALLS[:2] == ["first on_algorithm_init", "second on_algorithm_init"]
    result = learned_by(algorithm)
    assert CALLS.count("first on_train_result") == 1 and "function, True" in CALLS
    assert CALLS.index("first on_episode_start") < CALLS.index("function, True")
    assert result["mine"] in (0, 1)
    runners = result["env_runners"]
    assert runners["longest"] == runners["episode_len_max"] and runners["deep"]["figure"] >= 1
    algorithm.restore(algorithm.save(str(tmp_path / "saved")))
    assert CALLS[-1] == "second on_checkpoint_loaded"


def test_a_training_step_of_a_user(session: None, request: Any) -> None:
    class Twice(PPO):
        """Trains twice an iteration."""

        def training_step(self) -> None:
            super().training_step()
            super().training_step()
            self.metrics.log_value("steps_of_mine", 2, window=1)

    algorithm = Twice(config=small())
    request.addfinalizer(algorithm.stop)
    result = learned_by(algorithm)
    assert 128 <= result["num_env_steps_sampled_lifetime"] < 140 and result["steps_of_mine"] == 2


class Pair(MultiAgentEnv):
    """Two agents for five rounds; the reward of one is its action, of the other a constant."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.agents = self.possible_agents = ["left", "right"]
        self.observation_spaces = dict.fromkeys(self.agents, gym.spaces.Box(-1, 9, (2,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))

    def seen(self) -> dict[str, Any]:
        return {agent: np.array([self.rounds, at], np.float32) for at, agent in enumerate(self.agents)}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.rounds = 0
        return self.seen(), {}

    def step(self, action_dict: dict[str, Any]) -> Any:
        self.rounds += 1
        rewards = {"left": float(action_dict["left"]), "right": 2.0}
        over = self.rounds == 5
        return self.seen(), rewards, {"__all__": over}, {"__all__": False}, {}


def for_pair() -> PPOConfig:
    return (
        small()
        .environment(Pair)
        .multi_agent(
            policies={"of_left", "of_right"},
            policy_mapping_fn=lambda agent_id, *args, **kwargs: f"of_{agent_id}",
        )
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(
                rl_module_specs={
                    "of_left": RLModuleSpec(model_config={"fcnet_hiddens": [3]}),
                    "of_right": RLModuleSpec(model_config={"fcnet_hiddens": [6]}),
                }
            )
        )
    )


@pytest.fixture(scope="module")
def pair(session: None) -> Iterator[tuple[Any, dict[str, Any]]]:
    algorithm = for_pair().multi_agent(policies_to_train=["of_left"]).build_algo()
    before = {name: algorithm.get_module(name).get_state() for name in ("of_left", "of_right")}
    yield algorithm, {"result": algorithm.train(), "before": before}
    algorithm.stop()


def test_results_are_by_agent_and_by_module(pair: Any) -> None:
    runners = pair[1]["result"]["env_runners"]
    returns = runners["agent_episode_returns_mean"]
    assert set(returns) == {"left", "right"} and returns["right"] == 10.0
    assert set(runners["module_episode_returns_mean"]) == {"of_left", "of_right"}
    assert runners["episode_return_mean"] == pytest.approx(returns["left"] + 10.0)
    assert runners["episode_len_mean"] == 5
    steps = runners["num_env_steps_sampled"]
    assert runners["num_module_steps_sampled"] == {"of_left": steps, "of_right": steps}
    assert runners["num_agent_steps_sampled"] == {"left": steps, "right": steps}


def test_only_the_named_modules_learn(pair: Any) -> None:
    algorithm, found = pair
    assert "policy_loss" in found["result"]["learners"]["of_left"]
    assert "policy_loss" not in found["result"]["learners"].get("of_right", {})
    for name, changes in (("of_left", True), ("of_right", False)):
        before, after = found["before"][name], algorithm.get_module(name).get_state()
        changed = any(not np.array_equal(before[key], after[key]) for key in before if key in after)
        assert changed is changes, name


def test_modules_have_settings_of_their_own(pair: Any) -> None:
    algorithm, _ = pair
    widths = {
        name: next(
            value.shape[0]
            for key, value in algorithm.get_module(name).get_state().items()
            if "mlp.0.weight" in key
        )
        for name in ("of_left", "of_right")
    }
    assert widths == {"of_left": 3, "of_right": 6}
    assert algorithm.get_module("nobody") is None or pytest.fail("a module that is not there")


def test_the_checkpoint_has_a_folder_for_each_module(pair: Any, tmp_path: Path) -> None:
    algorithm, _ = pair
    path = Path(algorithm.save_to_path(str(tmp_path / "saved")))
    modules = path / "learner_group" / "learner" / "rl_module"
    assert {each.name for each in modules.iterdir() if each.is_dir()} == {"of_left", "of_right"}
    module = RLModule.from_checkpoint(str(modules / "of_right"))
    mine = algorithm.get_module("of_right").get_state()
    assert all(np.array_equal(module.get_state()[key], value) for key, value in mine.items())


def test_a_module_is_added_and_removed(pair: Any) -> None:
    algorithm, _ = pair
    old = algorithm.get_module("of_right")
    added = algorithm.add_module(
        "later",
        RLModuleSpec.from_module(old),
        new_agent_to_module_mapping_fn=lambda agent_id, *args, **kwargs: (
            "later" if agent_id == "right" else "of_left"
        ),
        new_should_module_be_updated=["later"],
    )
    assert added is not None and set(algorithm.get_module("later").get_state()) == set(old.get_state())
    result = algorithm.train()
    assert "later" in result["env_runners"]["num_module_steps_sampled"]
    assert "policy_loss" in result["learners"]["later"]
    algorithm.remove_module(
        "later",
        new_agent_to_module_mapping_fn=lambda agent_id, *args, **kwargs: f"of_{agent_id}",
        new_should_module_be_updated=["of_left"],
    )
    assert set(algorithm.train()["learners"]) >= {"of_left"}


class Copycat(RLModule):
    """Repeats the choice that it sees, and keeps what it was given."""

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        seen = np.asarray(batch[Columns.OBS])
        assert seen.ndim == 1 and set(seen.tolist()) <= {0, 1}, seen
        return {Columns.ACTIONS: seen.astype(np.int64)}

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_inference(batch)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("this module does not learn")


class Echoes(Pair):
    """One agent sees the rounds, the other the first one's last choice as a number; its reward is one for repeating it."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.observation_spaces = {**self.observation_spaces, "right": gym.spaces.Discrete(2)}

    def seen(self) -> dict[str, Any]:
        self.last = 0 if self.rounds == 0 else self.chosen
        return {**super().seen(), "right": self.last}

    def step(self, action_dict: dict[str, Any]) -> Any:
        repeated = float(action_dict["right"] == self.last)
        self.chosen = int(action_dict["left"])
        seen, rewards, *rest = super().step(action_dict)
        return (seen, {**rewards, "right": repeated}, *rest)


def test_a_module_of_ones_own_beside_a_default_one_gets_choices_as_numbers(session: None) -> None:
    specs = {
        "of_left": RLModuleSpec(model_config={"fcnet_hiddens": [3]}),
        "of_right": RLModuleSpec(module_class=Copycat),
    }
    config = for_pair().environment(Echoes).multi_agent(policies_to_train=["of_left"])
    config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
    algorithm = config.build_algo()
    returns = algorithm.train()["env_runners"]["agent_episode_returns_mean"]
    space = algorithm.get_module("of_right").observation_space
    algorithm.stop()
    assert returns["right"] == 5.0 and space == gym.spaces.Discrete(2)


@pytest.mark.parametrize("mode", ["truncate_episodes", "complete_episodes"])
def test_sampled_episodes_of_a_replay_buffer_are_shown(session: None, mode: str) -> None:
    shown: list[Any] = []

    def show(*, samples: Any, env_runner: Any, **kwargs: Any) -> None:
        shown.extend((len(each), each.get_return(), each.is_done) for each in samples)

    config = DQNConfig().environment("CartPole-v1").callbacks(on_sample_end=show).debugging(seed=1)
    config.env_runners(num_env_runners=0, batch_mode=mode)
    config.reporting(min_sample_timesteps_per_iteration=90)
    algorithm = config.rl_module(model_config={"fcnet_hiddens": [4]}).build_algo()
    sampled = algorithm.train()["num_env_steps_sampled_lifetime"]
    algorithm.stop()
    assert sum(length for length, _, _ in shown) == sampled >= 90
    assert all(returned == length for length, returned, _ in shown)
    done = [is_done for _, _, is_done in shown]
    assert all(done) if mode == "complete_episodes" else any(done) and not all(done)


def test_a_pipeline_is_changed_by_the_method_that_builds_it(session: None, request: Any) -> None:
    config = small()
    default = config.build_env_to_module_connector

    def build(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
        pipeline = default(env=env, spaces=spaces, device=device)
        pipeline.prepend(Scaled(by=4.0))
        return pipeline

    config.build_env_to_module_connector = build
    algorithm = built(config, request)
    learned_by(algorithm)
    pipeline = algorithm.env_runner._env_to_module
    names = [type(each).__name__ for each in pipeline.connectors]
    assert names[:2] == ["Scaled", "AddObservationsFromEpisodesToBatch"]
    assert pipeline[Scaled][0].count >= 64
