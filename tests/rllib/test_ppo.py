"""PPO from end to end: it learns, repeats itself bit for bit, is evaluated, saved, restored, and acts."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPO, PPOConfig
from skate.rllib.core.rl_module.rl_module import RLModule


def small(seed: int | None = 3) -> PPOConfig:
    """Return a configuration whose iteration takes a tenth of a second."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(train_batch_size=256, minibatch_size=128, num_epochs=2, lr=3e-4)
        .rl_module(model_config={"fcnet_hiddens": [16, 16]})
        .debugging(seed=seed)
    )


def digest(algorithm: Any) -> str:
    """Return a hash of the weights of all modules."""
    found = hashlib.sha256()
    for _, weights in sorted(algorithm.get_weights().items()):
        for name in sorted(weights):
            found.update(np.ascontiguousarray(weights[name]).tobytes())
    return found.hexdigest()


def test_it_learns_cartpole() -> None:
    algorithm = (
        small()
        .env_runners(num_envs_per_env_runner=8)
        .training(
            train_batch_size=1024,
            minibatch_size=256,
            num_epochs=6,
            lr=1e-3,
            lambda_=0.95,
            vf_clip_param=1e9,
            gamma=0.99,
        )
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .build_algo()
    )
    returns = [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(20)]
    algorithm.stop()
    assert returns[0] < 50
    assert returns[-1] > 120, returns


def test_an_iteration_has_the_keys_of_ray() -> None:
    algorithm = small().build_algo()
    result = algorithm.train()
    algorithm.stop()
    for key in (
        "training_iteration",
        "time_this_iter_s",
        "num_env_steps_sampled_lifetime",
        "config",
        "done",
        "timers",
    ):
        assert key in result
    assert result["training_iteration"] == 1
    assert result["num_training_step_calls_per_iteration"] == 1
    assert result["num_env_steps_sampled_lifetime"] == 256
    assert result["env_runners"]["num_env_steps_sampled"] == 256
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] == 256
    for key in (
        "episode_return_mean",
        "episode_return_max",
        "episode_len_mean",
        "num_episodes",
        "weights_seq_no",
    ):
        assert key in result["env_runners"]
    learned = result["learners"]["default_policy"]
    for key in (
        "total_loss",
        "policy_loss",
        "vf_loss",
        "entropy",
        "mean_kl_loss",
        "curr_kl_coeff",
        "vf_explained_var",
    ):
        assert isinstance(learned[key], float)
    assert result["learners"]["__all_modules__"]["num_env_steps_trained"] > 0
    assert result["fault_tolerance"]["num_remote_worker_restarts"] == 0
    timers = {
        "training_iteration",
        "training_step",
        "env_runner_sampling_timer",
        "learner_update_timer",
        "synch_weights",
    }
    assert timers <= result["timers"].keys()
    assert result["config"]["lr"] == 3e-4


def test_the_same_seed_gives_the_same_bits() -> None:
    digests = []
    for seed in (5, 5, 6):
        algorithm = small(seed).build_algo()
        for _ in range(2):
            algorithm.train()
        digests.append(digest(algorithm))
        algorithm.stop()
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


CONTINUED = """
import sys, hashlib, numpy as np
from skate.rllib.algorithms.algorithm import Algorithm
algorithm = Algorithm.from_checkpoint(sys.argv[1])
for _ in range(2):
    result = algorithm.train()
weights = algorithm.get_weights()["default_policy"]
print(hashlib.sha256(b"".join(np.ascontiguousarray(weights[n]).tobytes() for n in sorted(weights))).hexdigest())
print(result["training_iteration"], result["num_env_steps_sampled_lifetime"])
print(repr(result["env_runners"]["episode_return_mean"]), repr(result["learners"]["default_policy"]["curr_kl_coeff"]))
"""


def test_a_restored_run_continues_bit_for_bit_in_a_new_process(tmp_path: Path) -> None:
    algorithm = small().build_algo()
    for _ in range(2):
        algorithm.train()
    path = algorithm.save_to_path(tmp_path / "saved")
    for _ in range(2):
        result = algorithm.train()
    expected = [
        digest(algorithm),
        f"{result['training_iteration']} {result['num_env_steps_sampled_lifetime']}",
        f"{result['env_runners']['episode_return_mean']!r} {result['learners']['default_policy']['curr_kl_coeff']!r}",
    ]
    algorithm.restore_from_path(path)
    assert algorithm.iteration == 2
    for _ in range(2):
        algorithm.train()
    assert digest(algorithm) == expected[0]
    algorithm.stop()
    found = subprocess.run(
        [sys.executable, "-c", CONTINUED, path], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.splitlines() == expected


def test_the_folders_of_a_checkpoint_are_those_of_ray(tmp_path: Path) -> None:
    algorithm = small().build_algo()
    result = algorithm.train()
    saved = algorithm.save(str(tmp_path / "saved"))
    assert saved.checkpoint.path == str(tmp_path / "saved")
    assert saved.metrics["training_iteration"] == result["training_iteration"] == 1
    folder = tmp_path / "saved"
    module_folder = folder / "learner_group" / "learner" / "rl_module" / "default_policy"
    for path in (
        folder / "rllib_checkpoint.json",
        folder / "algorithm_state.pkl",
        folder / "class_and_ctor_args.pkl",
        folder / "env_runner" / "state.pkl",
        folder / "env_runner" / "env_to_module_connector",
        folder / "learner_group" / "learner" / "state.pkl",
        module_folder / "module_state.pkl",
    ):
        assert path.exists(), path
    module = RLModule.from_checkpoint(module_folder)
    observations = torch.randn(5, 4)
    out = module.forward_inference({"obs": observations})["action_dist_inputs"]
    expected = algorithm.get_module().forward_inference({"obs": observations})["action_dist_inputs"]
    assert torch.equal(out, expected)
    with pytest.raises(KeyError, match="the modules are: default_policy"):
        algorithm.get_module("other")
    algorithm.stop()
    restored = Algorithm.from_checkpoint(saved)
    assert (type(restored), restored.iteration, restored.config.lr) == (PPO, 1, 3e-4)
    restored.stop()
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        Algorithm.from_checkpoint(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not a checkpoint: it has no class_and_ctor_args"):
        Algorithm.from_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="not of a PPO"):
        PPO.from_checkpoint(module_folder)


def test_a_save_that_fails_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = small().build_algo()
    path = algorithm.save_to_path(tmp_path / "saved")
    algorithm.train()
    monkeypatch.setattr(algorithm.learner_group, "write_to", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        algorithm.save_to_path(path)
    algorithm.stop()
    assert [each.name for each in tmp_path.iterdir()] == ["saved"]
    restored = Algorithm.from_checkpoint(path)
    assert restored.iteration == 0
    restored.stop()


def test_evaluation() -> None:
    algorithm = (
        small()
        .evaluation(
            evaluation_interval=2,
            evaluation_duration=3,
            evaluation_config={"explore": False, "num_envs_per_env_runner": 1},
        )
        .build_algo()
    )
    results = [algorithm.train() for _ in range(3)]
    assert "evaluation" not in results[0]
    assert results[1]["evaluation"]["env_runners"]["num_episodes"] == 3
    assert "episode_return_mean" in results[2]["evaluation"]["env_runners"]  # that of the evaluation before
    assert algorithm.evaluate()["env_runners"]["num_episodes"] == 3
    algorithm.stop()


class Richer(gym.Env[Any, Any]):
    """Pays the number of its episodes at each of two steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, settings: Any) -> None:
        self.episodes = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes, self.steps = self.episodes + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), float(self.episodes), self.steps > 1, False, {}


def test_figures_of_an_evaluation_are_of_its_episodes_alone() -> None:
    algorithm = (
        small().environment(Richer).evaluation(evaluation_interval=1, evaluation_duration=3).build_algo()
    )
    first = algorithm.train()["evaluation"]["env_runners"]
    second = algorithm.evaluate()["env_runners"]
    assert second["num_episodes"] == 3 and second["num_episodes_lifetime"] == 6
    assert second["episode_return_min"] > first["episode_return_max"]
    algorithm.stop()


def test_evaluation_without_runners_for_it_takes_the_local_one() -> None:
    algorithm = small().evaluation(evaluation_duration=4).build_algo()
    algorithm.train()
    assert algorithm.evaluate()["env_runners"]["num_episodes"] == 4
    again = algorithm.evaluate()["env_runners"]
    assert again["num_episodes_lifetime"] == 8
    result = algorithm.train()
    assert result["env_runners"]["num_env_steps_sampled"] == algorithm.config.train_batch_size_per_learner
    algorithm.env_runner.env, env = None, algorithm.env_runner.env
    with pytest.raises(
        ValueError, match="no runners for evaluation, and the local runner has no environment"
    ):
        algorithm.evaluate()
    algorithm.env_runner.env = env
    algorithm.stop()


def test_single_actions_are_the_modules() -> None:
    algorithm = small().build_algo()
    observation, _ = gym.make("CartPole-v1").reset(seed=1)
    logits = algorithm.get_module().forward_inference({"obs": torch.from_numpy(observation)[None]})
    best = int(logits["action_dist_inputs"].argmax())
    assert algorithm.compute_single_action(observation, explore=False) == best
    assert {int(algorithm.compute_single_action(observation)) for _ in range(50)} == {0, 1}
    assert algorithm.compute_actions({"a": observation, "b": observation}, explore=False) == {
        "a": best,
        "b": best,
    }
    algorithm.stop()


def test_actions_of_a_continuous_space_are_scaled_to_its_bounds() -> None:
    algorithm = small().environment("Pendulum-v1").build_algo()
    algorithm.train()
    observation, _ = gym.make("Pendulum-v1").reset(seed=1)
    actions = np.stack([algorithm.compute_single_action(observation) for _ in range(40)])
    assert actions.shape == (40, 1)
    assert np.abs(actions).max() > 1.0
    assert np.abs(actions).max() <= 2.0
    algorithm.stop()


def test_callbacks_of_the_algorithm() -> None:
    seen: list[str] = []

    def look(algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        seen.append("result")
        result["own"] = algorithm.training_iteration + result["training_iteration"]

    algorithm = (
        small()
        .callbacks(
            on_algorithm_init=lambda algorithm, **_: seen.append("init"),
            on_train_result=look,
            on_checkpoint_loaded=lambda algorithm, **_: seen.append("loaded"),
        )
        .build_algo()
    )
    assert algorithm.train()["own"] == 2
    algorithm.restore_from_path(algorithm.save_to_path())
    algorithm.stop()
    assert seen == ["init", "result", "loaded"]


def test_an_algorithm_of_a_user() -> None:
    class Mine(PPO):
        def training_step(self) -> None:
            super().training_step()
            self.metrics.log_value("mine", 5, reduce="sum")

    algorithm = PPOConfig(algo_class=Mine).update_from_dict(small().to_dict()).build_algo()
    assert algorithm.train()["mine"] == 5
    assert pickle.loads(pickle.dumps(algorithm.config.lr)) == 3e-4
    algorithm.stop()


@pytest.mark.parametrize("schedule", [False, True])
def test_a_rate_that_was_changed_since_the_save_is_used_after_a_restore(
    schedule: bool, tmp_path: Path
) -> None:
    rates: Any = [[0, 4e-4], [10**6, 0.0]] if schedule else 3e-4
    first = small().training(lr=rates).build_algo()
    first.train()
    path = first.save_to_path(tmp_path / "saved")
    first.stop()
    other = small().training(lr=rates if schedule else 1e-5).build_algo()
    other.restore_from_path(path)
    rate = other.learner_group._learner.get_optimizer().param_groups[0]["lr"]
    other.stop()
    assert 3.9e-4 < rate < 4e-4 if schedule else rate == 1e-5


def test_a_restored_part_reaches_the_runner(tmp_path: Path) -> None:
    algorithm = small(1).build_algo()
    saved = Path(algorithm.save_to_path(tmp_path / "saved"))
    before = digest(algorithm)
    algorithm.train()
    algorithm.restore_from_path(
        saved / "learner_group" / "learner" / "rl_module", component="learner_group/learner/rl_module"
    )
    acting = algorithm.get_module().get_state()
    learned = algorithm.learner_group.get_weights()["default_policy"]
    assert digest(algorithm) == before and algorithm.iteration == 1
    assert all(np.array_equal(learned[name], value) for name, value in acting.items())
    algorithm.stop()


def test_figures_of_a_result_are_computed_with_as_few_threads_as_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One operation on more threads starts a pool that spins on the other cores for milliseconds after each iteration.
    algorithm, threads = small().build_algo(), []
    reduce = algorithm.metrics.reduce

    def watched(compile: bool = False) -> dict[str, Any]:
        threads.append(torch.get_num_threads())
        return dict(reduce(compile=compile))

    monkeypatch.setattr(algorithm.metrics, "reduce", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        algorithm.train()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
        algorithm.stop()
    assert threads == [1]
