"""PPO on local runners: keys of results, callbacks and their order, modules, and the folders of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")
import numpy as np
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.env.multi_agent_env import make_multi_agent

CALLS: list[str] = []


def recorded(name: str) -> Any:
    def call(self: Any, **kwargs: Any) -> None:
        CALLS.append(name)
        if name == "on_episode_end":
            kwargs["metrics_logger"].log_value("length_of_mine", len(kwargs["episode"]), reduce="mean")
        if name == "on_train_result":
            kwargs["result"]["added"] = "by a callback"

    return call


NAMES = (
    "on_algorithm_init", "on_environment_created", "on_episode_created", "on_episode_start", "on_episode_step",
    "on_episode_end", "on_sample_end", "on_train_result", "on_evaluate_start", "on_evaluate_end",
)  # fmt: skip
Recording = type("Recording", (RLlibCallback,), {name: recorded(name) for name in NAMES})


@pytest.fixture(scope="module")
def trained(session: None) -> Iterator[tuple[Any, dict[str, Any], list[str]]]:
    """A PPO, its second result, and the callbacks until the end of the first iteration."""
    CALLS.clear()
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(train_batch_size=256, minibatch_size=128, num_epochs=1, lr=1e-3)
        .rl_module(model_config={"fcnet_hiddens": [8], "vf_share_layers": False})
        .evaluation(evaluation_interval=1, evaluation_duration=2)
        .callbacks(Recording)
        .debugging(seed=1)
        .build_algo()
    )
    algorithm.train()
    calls = list(CALLS)
    yield algorithm, algorithm.train(), calls
    algorithm.stop()


def test_results_have_these_keys(trained: Any) -> None:
    _, result, _ = trained
    assert (result["training_iteration"], result["iterations_since_restore"]) == (2, 2)
    # Ray's runners return a few steps more than they are asked for.
    assert 512 <= result["num_env_steps_sampled_lifetime"] < 530
    assert {
        "time_this_iter_s", "time_total_s", "time_since_restore", "done", "date", "timestamp", "pid", "hostname",
        "node_ip", "config", "timers", "fault_tolerance", "perf", "num_training_step_calls_per_iteration",
    } <= set(result)  # fmt: skip
    runners = result["env_runners"]
    assert {
        "episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean", "episode_len_min",
        "episode_len_max", "episode_duration_sec_mean", "num_episodes", "num_episodes_lifetime",
        "num_env_steps_sampled", "num_env_steps_sampled_lifetime", "num_agent_steps_sampled", "weights_seq_no",
        "num_module_steps_sampled", "agent_episode_return_mean", "module_episode_return_mean", "length_of_mine",
    } <= set(runners)  # fmt: skip
    assert runners["num_env_steps_sampled_lifetime"] == result["num_env_steps_sampled_lifetime"]
    steps = runners["num_env_steps_sampled"]
    assert 256 <= steps < 270
    assert runners["num_module_steps_sampled"] == {"default_policy": steps}
    assert runners["num_agent_steps_sampled"] == {"default_agent": steps}
    learned = result["learners"]["default_policy"]
    assert {
        "total_loss", "policy_loss", "vf_loss", "vf_loss_unclipped", "vf_explained_var", "entropy", "mean_kl_loss",
        "curr_kl_coeff", "curr_entropy_coeff", "default_optimizer_learning_rate", "weights_seq_no",
        "num_module_steps_trained", "num_trainable_parameters",
    } <= set(learned)  # fmt: skip
    assert learned["default_optimizer_learning_rate"] == pytest.approx(1e-3)
    every = result["learners"]["__all_modules__"]
    assert {"num_env_steps_trained", "num_env_steps_trained_lifetime", "num_module_steps_trained"} <= set(
        every
    )
    evaluated = result["evaluation"]["env_runners"]
    assert evaluated["num_episodes"] == 2 and evaluated["episode_return_mean"] > 0
    assert result["added"] == "by a callback"


def test_callbacks_come_in_this_order(trained: Any) -> None:
    _, _, calls = trained
    first = [name for place, name in enumerate(calls) if name not in calls[:place]]
    assert set(first) == set(NAMES)
    order = ["on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end"]
    assert [name for name in first if name in order] == order
    assert (
        first.index("on_environment_created")
        < first.index("on_algorithm_init")
        < first.index("on_episode_start")
    )
    assert calls[-3:].count("on_train_result") == 1 and calls[-1] == "on_train_result"
    assert calls.index("on_evaluate_start") < calls.index("on_evaluate_end") < len(calls) - 1
    assert calls.count("on_evaluate_start") == calls.count("on_train_result") == 1


def test_a_module_by_itself(trained: Any) -> None:
    algorithm, _, _ = trained
    module = algorithm.get_module()
    batch = {Columns.OBS: torch.zeros(3, 4)}
    for forward in (module.forward_inference, module.forward_exploration):
        assert forward(batch)[Columns.ACTION_DIST_INPUTS].shape == (3, 2)
    kind = module.get_inference_action_dist_cls()
    spread = kind.from_logits(torch.tensor([[0.0, 3.0], [5.0, 1.0]]))
    assert spread.to_deterministic().sample().tolist() == [1, 0]
    expected = torch.distributions.Categorical(logits=torch.tensor([[0.0, 3.0], [5.0, 1.0]]))
    action = torch.tensor([1, 1])
    assert torch.allclose(spread.logp(action), expected.log_prob(action), atol=1e-5)
    assert torch.allclose(spread.entropy(), expected.entropy(), atol=1e-5)
    other = kind.from_logits(torch.zeros(2, 2))
    kl = torch.distributions.kl_divergence(
        expected, torch.distributions.Categorical(logits=torch.zeros(2, 2))
    )
    assert torch.allclose(spread.kl(other), kl, atol=1e-5)
    spec = RLModuleSpec.from_module(module)
    assert spec.module_class is type(module) and spec.build().get_state().keys() == module.get_state().keys()


def test_the_folders_of_a_checkpoint(trained: Any, tmp_path: Path) -> None:
    algorithm, _, _ = trained
    path = Path(algorithm.save_to_path(str(tmp_path / "saved")))
    for name in (
        "rllib_checkpoint.json", "algorithm_state.pkl", "class_and_ctor_args.pkl", "env_runner/state.pkl",
        "env_runner/env_to_module_connector/state.pkl", "learner_group/learner/state.pkl",
        "learner_group/learner/rl_module/default_policy/module_state.pkl",
        "learner_group/learner/rl_module/default_policy/class_and_ctor_args.pkl",
        "learner_group/learner/rl_module/default_policy/metadata.json",
    ):  # fmt: skip
        assert (path / name).is_file(), name
    modules = path / "learner_group" / "learner" / "rl_module"
    module = RLModule.from_checkpoint(str(modules / "default_policy"))
    several = MultiRLModule.from_checkpoint(str(modules))
    mine = algorithm.get_module().get_state()
    assert {
        "encoder.actor_encoder.net.mlp.0.weight", "encoder.actor_encoder.net.mlp.0.bias",
        "pi.net.mlp.0.weight", "pi.net.mlp.0.bias",
    } <= set(mine)  # fmt: skip
    for name, array in mine.items():
        assert np.array_equal(module.get_state()[name], array)
        assert np.array_equal(several["default_policy"].get_state()[name], array)
    again = Algorithm.from_checkpoint(str(path))
    assert type(again) is PPO and again.iteration == 2
    assert (again.config.lr, again.config.env, again.config.seed) == (1e-3, "CartPole-v1", 1)
    assert all(np.array_equal(again.get_module().get_state()[name], array) for name, array in mine.items())
    again.stop()


def test_missing_checkpoints_and_other_classes(session: None, trained: Any, tmp_path: Path) -> None:
    algorithm, _, _ = trained
    path = algorithm.save_to_path(str(tmp_path / "saved"))
    with pytest.raises(ValueError):
        MultiRLModule.from_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        algorithm.restore_from_path(str(tmp_path / "nothing"))


def test_a_restored_run_may_have_fewer_modules(session: None, tmp_path: Path) -> None:
    def poles(*modules: str) -> PPOConfig:
        return (
            PPOConfig()
            .environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
            .env_runners(num_env_runners=0)
            .training(train_batch_size=40, minibatch_size=20, num_epochs=1)
            .rl_module(
                model_config={"fcnet_hiddens": [4]},
                algorithm_config_overrides_per_module={modules[0]: PPOConfig.overrides(lr=0.25)},
            )
            .multi_agent(
                policies=set(modules), policy_mapping_fn=lambda agent, episode, **kwargs: modules[agent]
            )
        )

    algorithm = poles("kept", "dropped").build_algo()
    algorithm.train()
    path = algorithm.save_to_path(str(tmp_path))
    algorithm.stop()
    # The running episodes of the checkpoint need a module that is not there any more.
    restored = PPO.from_checkpoint(path, config=poles("kept", "kept"))
    learned = restored.train()["learners"]
    assert learned["kept"]["default_optimizer_learning_rate"] == 0.25
    assert set(restored.learner_group._learner.module.keys()) == {"kept"}
    restored.stop()
