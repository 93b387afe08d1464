"""Learners that a program holds itself: batches given by hand, gradients, modules that come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import gymnasium as gym
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch

ONLY = "default_policy"


class Imitation(PPOTorchLearner):
    """Makes the actions of a batch likely."""

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        chances = torch.distributions.Categorical(logits=fwd_out["action_dist_inputs"])
        return -chances.log_prob(batch["actions"]).mean()

    def after_gradient_based_update(self, *, timesteps: Any) -> None:
        """Leave out what PPO does after its own loss."""


def config_of(**training: Any) -> PPOConfig:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .training(learner_class=Imitation, **training)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .debugging(seed=1)
    )


def learner_of(**training: Any) -> Any:
    return config_of(**training).build_learner(env=gym.make("CartPole-v1"))


def rows(count: int) -> SampleBatch:
    rng = np.random.default_rng(count)
    observations = torch.from_numpy(rng.normal(size=(count, 4)).astype(np.float32))
    return SampleBatch({"obs": observations, "actions": torch.zeros(count, dtype=torch.int64)})


def test_a_batch_given_by_hand_is_learned_and_counted() -> None:
    learner = learner_of(lr=0.01)
    losses = []
    for update in range(1, 9):
        found = learner.update(batch=rows(6).as_multi_agent())
        one, everyone = found[ONLY], found["__all_modules__"]
        assert float(one["module_train_batch_size_mean"]) == float(one["num_module_steps_trained"]) == 6
        assert float(one["weights_seq_no"]) == update
        assert float(everyone["num_module_steps_trained"]) == float(everyone["num_env_steps_trained"]) == 6
        losses.append(float(one[Learner.TOTAL_LOSS_KEY]))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 0.1


def test_batches_of_several_modules_come_with_their_steps_of_the_environment() -> None:
    learner = learner_of()
    spec = config_of().get_rl_module_spec(env=gym.make("CartPole-v1"))
    for name in ("p", "q"):
        learner.add_module(module_id=name, module_spec=spec)
    learner.remove_module(module_id=ONLY)
    assert set(learner.module.keys()) == {"p", "q"}
    found = learner.update(MultiAgentBatch({"p": rows(6), "q": rows(4)}, 7))
    assert {name: float(found[name]["num_module_steps_trained"]) for name in ("p", "q")} == {"p": 6, "q": 4}
    assert float(found["__all_modules__"]["num_module_steps_trained"]) == 10
    assert float(found["__all_modules__"]["num_env_steps_trained"]) == 7
    with pytest.raises((KeyError, ValueError), match="z"):
        learner.update(MultiAgentBatch({"z": rows(4)}, 4))


def test_gradients_are_computed_bounded_and_applied_by_hand() -> None:
    learner = learner_of(lr=0.001, grad_clip=0.5, grad_clip_by="value")
    parameters = learner.get_parameters(learner.module[ONLY])
    before = [parameter.detach().clone() for parameter in parameters]
    found = learner.compute_gradients({"__all_modules__": sum(parameter.sum() for parameter in parameters)})
    assert set(found) == {learner.get_param_ref(parameter) for parameter in parameters}
    assert all(bool((gradient == 1).all()) for gradient in found.values())
    bounded = learner.postprocess_gradients(dict(found))
    assert all(bool((gradient == 0.5).all()) for gradient in bounded.values())
    learner.apply_gradients(bounded)
    # Adam's first step is as long as the rate, whatever the gradient is.
    for was, parameter in zip(before, parameters, strict=True):
        assert torch.allclose(was - 0.001, parameter, atol=1e-6)


@pytest.mark.parametrize(("way", "limit"), [("norm", 0.1), ("global_norm", 0.2)])
def test_gradients_are_bounded_in_each_tensor_or_in_all_of_them(way: str, limit: float) -> None:
    learner = learner_of(grad_clip=limit, grad_clip_by=way)
    given = {
        learner.get_param_ref(each): torch.ones_like(each)
        for each in learner.get_parameters(learner.module[ONLY])
    }
    norms = [float(gradient.norm()) for gradient in learner.postprocess_gradients(given).values()]
    if way == "norm":
        assert norms == pytest.approx([limit] * len(norms), rel=1e-3)
    else:
        assert sum(norm**2 for norm in norms) ** 0.5 == pytest.approx(limit, rel=1e-3)


def test_a_learner_is_made_from_its_checkpoint_with_the_modules_that_it_had(tmp_path: Path) -> None:
    learner = learner_of()
    spec = RLModuleSpec.from_module(learner.module[ONLY].unwrapped())
    learner.add_module(module_id="more", module_spec=spec)
    learner.remove_module(module_id=ONLY)
    learner.update(MultiAgentBatch({"more": rows(6)}, 6))
    learner.save_to_path(str(tmp_path))
    again = Learner.from_checkpoint(str(tmp_path))
    assert type(again) is Imitation and "more" in again.module
    for name, value in learner.module.get_state()["more"].items():
        assert np.array_equal(value, again.module.get_state()["more"][name])
