"""Modules that come and go while an algorithm trains: self-play against earlier versions, and policies that are no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from skate.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from skate.rllib.env.multi_agent_env import make_multi_agent

Poles = make_multi_agent("CartPole-v1")


class AtRandom(RLModule):
    """Acts at random; it has no parameters, and no values."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {"actions": np.array([self.action_space.sample() for _ in range(len(batch["obs"]))])}


def self_play() -> PPOConfig:
    specs = {"main": RLModuleSpec(), "random": RLModuleSpec(module_class=AtRandom)}
    return (
        PPOConfig()
        .environment(Poles, env_config={"num_agents": 2})
        .env_runners(num_env_runners=0)
        .multi_agent(
            policies={"main", "random"},
            policy_mapping_fn=lambda agent_id, episode, **kw: "main" if agent_id == 0 else "random",
            policies_to_train=["main"],
        )
        .rl_module(
            model_config={"fcnet_hiddens": [8]}, rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs)
        )
        .training(train_batch_size=128, minibatch_size=64, num_epochs=1)
        .debugging(seed=1)
    )


def parameters_of(module: Any) -> np.ndarray:
    return np.concatenate([np.ravel(value) for _, value in sorted(module.get_state().items())])


def test_a_snapshot_becomes_the_opponent_and_leaves_again(tmp_path: Path) -> None:
    algorithm = self_play().build_algo()
    result = algorithm.train()
    trained = [name for name, found in result["learners"].items() if "num_module_steps_trained" in found]
    assert set(trained) == {"main", "__all_modules__"}, "what is not trained needs no values"
    main = algorithm.get_module("main")
    with pytest.raises(ValueError, match="exists already"):
        algorithm.add_module("main", RLModuleSpec.from_module(main))
    specs = algorithm.add_module(
        "main_v1",
        RLModuleSpec.from_module(main),
        new_agent_to_module_mapping_fn=lambda agent_id, episode, **kw: "main" if agent_id else "main_v1",
    )
    assert set(specs.rl_module_specs) == {"main", "random", "main_v1"}
    spaces = {"observation_space": main.observation_space, "action_space": main.action_space}
    algorithm.add_module("plain", RLModuleSpec(module_class=type(main), catalog_class=PPOCatalog, **spaces))
    assert len(parameters_of(algorithm.get_module("plain"))) == len(parameters_of(main)), (
        "as the config has it"
    )
    algorithm.remove_module("plain")
    state = {"learner_group": {"learner": {"rl_module": {"main_v1": main.get_state()}}}}
    algorithm.set_state(state)
    before = parameters_of(algorithm.get_module("main_v1"))
    assert np.array_equal(before, parameters_of(main)), "runners have the weights that were set"
    algorithm.env_runner_group.foreach_env_runner(
        lambda runner: setattr(runner, "_needs_initial_reset", True)
    )
    result = algorithm.train()
    assert result["env_runners"]["num_module_steps_sampled"].keys() == {"main", "main_v1"}
    assert np.array_equal(parameters_of(algorithm.get_module("main_v1")), before), "it is not trained"
    assert not np.array_equal(parameters_of(algorithm.get_module("main")), before)
    restored = Algorithm.from_checkpoint(algorithm.save_to_path(tmp_path / "saved"))
    assert np.array_equal(parameters_of(restored.get_module("main_v1")), before)
    restored.stop()
    algorithm.remove_module("main_v1", new_agent_to_module_mapping_fn=lambda agent_id, episode, **kw: "main")
    assert algorithm.train()["env_runners"]["num_module_steps_sampled"].keys() == {"main"}
    assert algorithm.get_module("main_v1") is None
    with pytest.raises(ValueError, match="added nowhere"):
        algorithm.add_module(
            "x", None, add_to_learners=False, add_to_env_runners=False, add_to_eval_env_runners=False
        )
    algorithm.stop()


def test_an_algorithm_with_one_module_takes_no_other() -> None:
    algorithm = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()
    with pytest.raises(RuntimeError, match="several modules"):
        algorithm.add_module("other", RLModuleSpec())
    algorithm.stop()
