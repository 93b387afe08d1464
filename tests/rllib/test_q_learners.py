"""Learners of DQN and SAC: Ray's figures from the same weights and rows, targets, state, and exploration."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from skate.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner, projected
from skate.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from skate.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from skate.rllib.core.learner.learner_group import LearnerGroup
from skate.rllib.core.rl_module import RLModuleSpec
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.rllib.utils.replay_buffers.episode_steps import episodes_of
from tests.rllib.learner_settings import Config
from tests.rllib.recordings import ARM, BOX, SMALL, recorded, tensors

DQN = {
    "lr": 5e-4, "gamma": 0.99, "grad_clip": 40.0, "grad_clip_by": "global_norm", "tau": 1.0,
    "target_network_update_freq": 500, "double_q": True, "dueling": True, "num_atoms": 1, "v_min": -10.0,
    "v_max": 10.0, "td_error_loss_fn": "huber", "learner_class": DQNTorchLearner, "policies_to_train": None,
    "seed": 1, "log_gradients": False,
}  # fmt: skip
SAC = {
    "lr": None, "actor_lr": 3e-5, "critic_lr": 3e-4, "alpha_lr": 3e-4, "gamma": 0.99, "grad_clip": None, "tau": 0.005,
    "target_network_update_freq": 0, "twin_q": True, "initial_alpha": 1.0, "target_entropy": "auto",
    "learner_class": SACTorchLearner, "policies_to_train": None, "seed": 1, "log_gradients": False,
}  # fmt: skip
#: The largest learning rate below, which is the size of Adam's first step.
LARGEST_STEP = 0.01
DISCRETE = spaces.Discrete(3)
LOSSES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "dqn_dueling": (DQN, DISCRETE, {"lr": 0.01}),
    "dqn_plain": (DQN, DISCRETE, {"dueling": False, "double_q": False, "td_error_loss_fn": "mse"}),
    "dqn_atoms": (DQN, DISCRETE, {"num_atoms": 5, "v_min": -2.0, "v_max": 2.0}),
    "sac_box": (SAC, ARM, {"initial_alpha": 0.5}),
    "sac_single": (SAC, ARM, {"twin_q": False}),
    "sac_discrete": (SAC, DISCRETE, {}),
}


def group_of(name: str, **settings: Any) -> LearnerGroup:
    defaults, actions, training = LOSSES[name]
    config = Config(**{**defaults, **training, **settings})
    shared = {key: value for key, value in vars(config).items() if key in _READ_BY_MODULES}
    module_class = DefaultDQNTorchRLModule if defaults is DQN else DefaultSACTorchRLModule
    model = {**SMALL, "head_fcnet_hiddens": [5], "fusionnet_hiddens": [7], **shared}
    spec = RLModuleSpec(
        module_class=module_class, observation_space=BOX, action_space=actions, model_config=model
    )
    return LearnerGroup(config=config, module_spec=spec)


_READ_BY_MODULES = ("dueling", "double_q", "num_atoms", "v_min", "v_max", "twin_q")


@pytest.mark.parametrize("name", LOSSES)
def test_losses_gradients_and_targets_are_those_of_ray(name: str) -> None:
    theirs = recorded(f"q_loss_{name}")
    learner = group_of(name)._learner
    module = learner.module["default_policy"]
    assert {k: v.shape for k, v in module.get_state().items()} == {
        k: v.shape for k, v in theirs["before"].items()
    }
    module.set_state(theirs["before"])
    module.training_generator = torch.Generator().manual_seed(11)
    batch = {"default_policy": tensors(theirs["batch"])}
    losses = learner.compute_losses(fwd_out=learner.module.forward_train(batch), batch=batch)
    torch.testing.assert_close(
        losses["default_policy"].detach().reshape(()),
        torch.as_tensor(theirs["loss"]).reshape(()),
        rtol=1e-5,
        atol=1e-6,
    )
    gradients = learner.compute_gradients(losses)
    names = {p: key for key, p in module.named_parameters()}
    mine = {names.get(p, "log_alpha"): g for p, g in gradients.items() if g is not None}
    assert mine.keys() == theirs["gradient"].keys()
    for key, gradient in mine.items():
        torch.testing.assert_close(gradient, torch.as_tensor(theirs["gradient"][key]), rtol=1e-4, atol=1e-5)
    learner.apply_gradients(learner.postprocess_gradients(gradients))
    learner._flush_statistics(losses)
    learner.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": 600})
    after = module.get_state()
    for key, parameter in after.items():
        gradient = np.asarray(theirs["gradient"].get(key.removeprefix("_target_"), np.ones_like(parameter)))
        # Adam's first step divides a gradient by its own size, so near zero the last bits of its sum decide.
        near_zero = np.abs(gradient) < 1e-5
        for places, allowed in ((near_zero, 2 * LARGEST_STEP), (~near_zero, 1e-5)):
            np.testing.assert_allclose(
                parameter[places], theirs["after"][key][places], rtol=1e-4, atol=allowed, err_msg=key
            )
    for key, value in theirs["stat"].items():
        assert learner.metrics.peek(("default_policy", key)) == pytest.approx(
            float(value), rel=1e-4, abs=1e-5
        ), key
    assert len(learner.take_td_errors()["default_policy"]) == 32 and learner.take_td_errors() == {}


@pytest.mark.parametrize("name", ["dqn_atoms", "sac_box"])
def test_updates_repeat_from_a_saved_state_bit_by_bit(name: str, tmp_path: pathlib.Path) -> None:
    batch = {"default_policy": recorded(f"q_loss_{name}")["batch"]}
    group, other = group_of(name), group_of(name, seed=9)
    for step in range(3):
        group.update(batch=batch, timesteps={"num_env_steps_sampled_lifetime": 300 * step})
    other.restore_from_path(group.save_to_path(tmp_path / "learners"))
    for each in (group, other):
        for step in range(3, 6):
            each.update(batch=batch, timesteps={"num_env_steps_sampled_lifetime": 300 * step})
    mine, theirs = (each.get_weights()["default_policy"] for each in (group, other))
    assert all(np.array_equal(array, theirs[key]) for key, array in mine.items())
    assert group._learner.last_update_ts_by_mid == other._learner.last_update_ts_by_mid
    alphas = [getattr(each._learner, "curr_log_alpha", {}) for each in (group, other)]
    assert all(torch.equal(alphas[0][key], alphas[1][key]) for key in alphas[0])


@pytest.mark.parametrize("name", ["dqn_dueling", "sac_box"])
def test_episodes_of_one_step_teach_what_their_rows_teach(name: str) -> None:
    rows = recorded(f"q_loss_{name}")["batch"]
    steps = {key: np.asarray(column) for key, column in rows.items()}
    steps["truncateds"] = np.zeros_like(steps["terminateds"])
    learnt = []
    for given in ({"batch": {"default_policy": rows}}, {"episodes": episodes_of(steps, to_numpy=True)}):
        group = group_of(name)
        for _ in range(2):
            group.update(**given, timesteps={"num_env_steps_sampled_lifetime": 600})
        learnt.append((group.get_weights()["default_policy"], group.take_td_errors()["default_policy"]))
    assert all(np.allclose(array, learnt[1][0][key], atol=1e-6) for key, array in learnt[0][0].items())
    assert np.allclose(learnt[0][1], learnt[1][1], atol=1e-5)


def test_target_networks_move_by_tau_when_enough_steps_have_passed() -> None:
    batch = {"default_policy": recorded("q_loss_dqn_dueling")["batch"]}
    group = group_of("dqn_dueling", tau=0.25)
    start = group.get_weights()["default_policy"]
    for steps, moved in ((499, 0.0), (500, 0.25), (999, 0.25)):
        group.update(batch=batch, timesteps={"num_env_steps_sampled_lifetime": steps})
        now = group.get_weights()["default_policy"]
        if steps == 500:
            main = now["af.net.mlp.0.weight"]
        expected = start["af.net.mlp.0.weight"]
        if moved:
            expected = expected + moved * (main - expected)
        np.testing.assert_allclose(now["_target_af.net.mlp.0.weight"], expected, atol=1e-6)


def test_a_q_function_learns_what_each_action_is_worth() -> None:
    numbers = np.random.default_rng(0)
    observations = numbers.uniform(-1, 1, (256, 4)).astype(np.float32)
    actions = numbers.integers(0, 3, 256)
    rows = {
        "obs": observations, "new_obs": observations, "actions": actions,
        "rewards": (actions == (observations[:, 0] > 0)).astype(np.float32), "terminateds": np.ones(256, bool),
    }  # fmt: skip
    group = group_of("dqn_dueling", lr=0.01)
    for _ in range(150):
        group.update(batch=rows, timesteps={})
    module = group._learner.module["default_policy"]
    best = module.forward_inference({"obs": torch.as_tensor(observations)})["actions"].numpy()
    assert (best == (observations[:, 0] > 0)).mean() > 0.9
    results = MetricsLogger.peek_results(group.update(batch=rows, timesteps={})[0])
    assert results["default_policy"]["qf_loss"] < 0.1


def test_exploration_takes_any_action_that_is_allowed_with_probability_epsilon() -> None:
    spec = RLModuleSpec(
        module_class=DefaultDQNTorchRLModule, observation_space=BOX, action_space=DISCRETE, inference_only=True,
        model_config={**SMALL, "epsilon": [[0, 1.0], [100, 0.0]]},
    )  # fmt: skip
    module = spec.build()
    module.exploration_generator = torch.Generator().manual_seed(1)
    batch = {"obs": torch.rand(1, 4).expand(6000, 4)}
    best = int(module.forward_inference(batch)["actions"][0])
    for t, share in ((0, 1 / 3), (50, 2 / 3), (100, 1.0), (999, 1.0)):
        actions = module.forward_exploration(batch, t=t)["actions"]
        assert abs((actions == best).float().mean() - share) < 0.03
    values = torch.tensor([[1.0, float("-inf"), 0.0]]).expand(6000, 3)
    module.compute_q_values = lambda batch: {"qf_preds": values}
    assert set(module.forward_exploration(batch, t=0)["actions"].tolist()) == {0, 2}


def test_exploration_without_values_draws_the_same_actions() -> None:
    spec = RLModuleSpec(
        module_class=DefaultDQNTorchRLModule, observation_space=BOX, action_space=DISCRETE, inference_only=True,
        model_config={**SMALL, "epsilon": [[0, 1.0], [100, 0.0]]},
    )  # fmt: skip
    module = spec.build()
    batch = {"obs": torch.rand(3, 4)}
    found = []
    asked: list[int] = []
    own = module.compute_q_values
    for watched in (False, True):
        module.exploration_generator = torch.Generator().manual_seed(1)
        if watched:
            module.compute_q_values = lambda batch: (asked.append(1), own(batch))[1]
        found.append([module.forward_exploration(batch, t=t)["actions"].tolist() for t in range(0, 120, 3)])
    assert found[0] == found[1] and len(asked) == 40


def test_a_projection_keeps_mass_and_mean() -> None:
    torch.manual_seed(0)
    probs = torch.rand(20, 7).softmax(-1)
    atoms = torch.linspace(-3.0, 3.0, 7)
    inside = atoms * 0.5 + torch.rand(20, 1)
    target = projected(inside, probs, -3.0, 3.0)
    torch.testing.assert_close(target.sum(-1), torch.ones(20))
    torch.testing.assert_close((target * atoms).sum(-1), (probs * inside).sum(-1), rtol=1e-4, atol=1e-4)
    beyond = projected(torch.full((1, 7), 99.0), probs[:1], -3.0, 3.0)
    assert beyond[0].tolist() == pytest.approx([0.0] * 6 + [1.0])
    torch.testing.assert_close(projected(atoms.expand(20, 7), probs, -3.0, 3.0), probs)


def test_spaces_that_an_algorithm_cannot_take_are_refused() -> None:
    for module_class, words in (
        (DefaultDQNTorchRLModule, "Discrete"),
        (DefaultSACTorchRLModule, "Box or Discrete"),
    ):
        with pytest.raises(ValueError, match=words):
            RLModuleSpec(
                module_class=module_class, observation_space=BOX, action_space=spaces.MultiDiscrete([2])
            ).build()
