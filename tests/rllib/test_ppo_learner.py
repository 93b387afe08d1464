"""PPO's learner: Ray's figures from the same weights and rows, state, and what users override."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from skate.rllib.core.columns import Columns
from skate.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from skate.rllib.core.learner.learner_group import LearnerGroup
from skate.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from skate.rllib.core.rl_module.apis import SelfSupervisedLossAPI, ValueFunctionAPI
from skate.rllib.core.rl_module.torch import TorchRLModule
from skate.rllib.env.rollout import Rollout
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from tests.rllib.learner_settings import Config
from tests.rllib.recordings import ARM, BOX, SMALL, recorded, tensors

DEFAULTS = {
    "lr": 0.01, "seed": 5, "gamma": 0.99, "lambda_": 0.95, "use_gae": True, "use_critic": True, "use_kl_loss": True,
    "kl_coeff": 0.2, "kl_target": 0.01, "vf_loss_coeff": 1.0, "entropy_coeff": 0.0, "clip_param": 0.3,
    "vf_clip_param": 10.0, "grad_clip": None, "grad_clip_by": "global_norm", "log_gradients": False,
    "policies_to_train": None, "learner_class": PPOTorchLearner,
}  # fmt: skip
LOSSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "discrete": (spaces.Discrete(3), {"entropy_coeff": 0.01, "vf_clip_param": 0.5}),
    "box": (ARM, {"use_kl_loss": False, "grad_clip": 0.1, "vf_loss_coeff": 0.5}),
    "no_critic": (ARM, {"use_critic": False, "kl_coeff": 0.7, "grad_clip": 0.02, "grad_clip_by": "norm"}),
}


def config_of(**settings: Any) -> Config:
    return Config(**{**DEFAULTS, **settings})


def spec_of(actions: Any = None, module_class: Any = DefaultPPOTorchRLModule, **model: Any) -> RLModuleSpec:
    return RLModuleSpec(
        module_class=module_class,
        observation_space=BOX,
        action_space=actions or spaces.Discrete(3),
        model_config={**SMALL, "vf_share_layers": False, **model},
    )


def learner_of(learner_class: Any = PPOTorchLearner, spec: Any = None, **settings: Any) -> Any:
    learner = learner_class(config=config_of(**settings), module_spec=spec or spec_of())
    learner.build()
    return learner


def rollout_of(seed: int, steps: int = 16, lanes: int = 4, module: Any = None) -> Rollout:
    """Random steps, with actions that a policy with random logits took."""
    numbers = np.random.default_rng(seed)
    inputs = torch.as_tensor(numbers.normal(size=(steps, lanes, 3)).astype(np.float32) * 0.1)
    policy = TorchCategorical.from_logits(inputs)
    actions = policy.sample(generator=torch.Generator().manual_seed(seed))
    return Rollout(
        columns={
            Columns.OBS: numbers.uniform(-1, 1, (steps, lanes, 4)).astype(np.float32),
            Columns.ACTIONS: actions.numpy(),
            Columns.REWARDS: numbers.normal(size=(steps, lanes)).astype(np.float32),
            Columns.TERMINATEDS: numbers.random((steps, lanes)) < 0.1,
            Columns.TRUNCATEDS: numbers.random((steps, lanes)) < 0.1,
            Columns.ACTION_LOGP: policy.logp(actions).numpy(),
            Columns.ACTION_DIST_INPUTS: inputs.numpy(),
        },
        valid=numbers.random((steps, lanes)) < 0.9,
        next_obs=numbers.uniform(-1, 1, (steps, lanes, 4)).astype(np.float32),
        weights_seq_no=1,
    )


def update(learner: Any, seed: int, **settings: Any) -> dict[str, Any]:
    arguments = {"num_epochs": 2, "minibatch_size": 16, "shuffle_batch_per_epoch": True, **settings}
    results = learner.update([rollout_of(seed), rollout_of(seed + 100)], timesteps={}, **arguments)
    return MetricsLogger.peek_results(results)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_are_those_of_ray(name: str) -> None:
    actions, settings = LOSSES[name]
    theirs = recorded(f"ppo_loss_{name}")
    learner = learner_of(spec=spec_of(actions), **settings)
    module = learner.module["default_policy"]
    module.set_state(theirs["before"])
    batch = {"default_policy": tensors(theirs["batch"])}
    losses = learner.compute_losses(fwd_out=learner.module.forward_train(batch), batch=batch)
    torch.testing.assert_close(
        losses["default_policy"].detach(), torch.as_tensor(theirs["loss"]), rtol=1e-5, atol=1e-6
    )
    gradients = learner.compute_gradients(losses)
    mine = {key: gradients[p] for key, p in module.named_parameters() if gradients[p] is not None}
    assert mine.keys() == theirs["gradient"].keys()
    for key, gradient in mine.items():
        torch.testing.assert_close(gradient, torch.as_tensor(theirs["gradient"][key]), rtol=1e-5, atol=1e-6)
    learner.apply_gradients(learner.postprocess_gradients(gradients))
    for key, parameter in module.get_state().items():
        np.testing.assert_allclose(parameter, theirs["after"][key], rtol=1e-5, atol=1e-5)
    learner._flush_statistics(losses)
    learner.after_gradient_based_update(timesteps={})
    for key, value in theirs["stat"].items():
        assert learner.metrics.peek(("default_policy", key)) == pytest.approx(
            float(value), rel=1e-4, abs=1e-6
        ), key
    assert learner.curr_kl_coeffs_per_module["default_policy"] == pytest.approx(float(theirs["kl_coeff"]))


def test_a_batch_of_rollouts_has_each_valid_step_once_with_its_own_advantage() -> None:
    learner = learner_of(gamma=0.0, lambda_=0.0)
    rollout = rollout_of(3)
    batch = learner.make_batches([rollout, rollout_of(4)])["default_policy"]
    valid = rollout.valid
    assert batch[Columns.OBS].shape[0] == valid.sum() + rollout_of(4).valid.sum()
    # Without a discount, the target of a step is its reward.
    torch.testing.assert_close(
        batch[Columns.VALUE_TARGETS][: valid.sum()], torch.as_tensor(rollout.columns[Columns.REWARDS][valid])
    )
    assert abs(float(batch[Columns.ADVANTAGES].mean())) < 1e-5


def test_values_after_a_cut_are_those_of_the_last_observation() -> None:
    learner = learner_of(gamma=1.0, lambda_=0.0)
    rollout = rollout_of(3, steps=3, lanes=2)
    rollout.valid[:] = True
    rollout.columns[Columns.REWARDS][:] = 0.0
    for name, row in (
        (Columns.TERMINATEDS, [[0, 0], [0, 1], [0, 0]]),
        (Columns.TRUNCATEDS, [[0, 1], [0, 0], [0, 0]]),
    ):
        rollout.columns[name] = np.array(row, bool)
    targets = learner.make_batches([rollout])["default_policy"][Columns.VALUE_TARGETS].reshape(3, 2)
    module = learner.module["default_policy"]
    with torch.no_grad():
        before = module.compute_values({Columns.OBS: torch.as_tensor(rollout.columns[Columns.OBS])})
        after = module.compute_values({Columns.OBS: torch.as_tensor(rollout.next_obs)})
    expected = torch.stack([before[1], before[2], after[2]])
    expected[0, 1], expected[1, 1] = after[0, 1], 0.0
    torch.testing.assert_close(targets, expected, rtol=1e-5, atol=1e-6)


def test_an_update_improves_the_value_function_and_returns_rays_keys() -> None:
    learner = learner_of()
    first = update(learner, 1)
    for _ in range(15):
        last = update(learner, 1)
    assert last["default_policy"]["vf_loss"] < first["default_policy"]["vf_loss"]
    assert first["default_policy"].keys() >= {
        "total_loss", "policy_loss", "vf_loss", "vf_loss_unclipped", "vf_explained_var", "entropy", "mean_kl_loss",
        "curr_kl_coeff", "curr_entropy_coeff", "default_optimizer_learning_rate", "num_module_steps_trained",
        "num_module_steps_trained_lifetime", "module_train_batch_size_mean", "weights_seq_no",
        "num_trainable_parameters",
    }  # fmt: skip
    assert first["__all_modules__"]["num_env_steps_trained"] >= 2 * rollout_of(1).valid.sum()


def test_updates_repeat_from_a_saved_state_bit_by_bit(tmp_path: pathlib.Path) -> None:
    settings = {"entropy_coeff": [[0, 0.1], [100, 0.0]], "lr": [[0, 0.01], [100, 0.001]], "kl_target": 1e-6}
    group = LearnerGroup(config=config_of(**settings), module_spec=spec_of())
    for step in range(3):
        group.update(
            [rollout_of(step)],
            timesteps={"num_env_steps_sampled_lifetime": step * 20},
            num_epochs=2,
            minibatch_size=8,
            shuffle_batch_per_epoch=True,
        )
    path = group.save_to_path(tmp_path / "learner_group")
    other = LearnerGroup(config=config_of(**settings), module_spec=spec_of())
    other.restore_from_path(path)
    learner = other._learner
    assert learner.curr_kl_coeffs_per_module["default_policy"] > 0.2
    assert learner.entropy_coeff_schedulers_per_module["default_policy"].get_current_value() == pytest.approx(
        0.06
    )
    for each in (group, other):
        for step in range(3, 5):
            each.update(
                [rollout_of(step)],
                timesteps={"num_env_steps_sampled_lifetime": step * 20},
                num_epochs=2,
                minibatch_size=8,
                shuffle_batch_per_epoch=True,
            )
    mine, theirs = (each.get_weights()["default_policy"] for each in (group, other))
    assert all(np.array_equal(array, theirs[name]) for name, array in mine.items())
    rates = [each._learner.get_optimizer().param_groups[0]["lr"] for each in (group, other)]
    assert rates[0] == rates[1] == pytest.approx(0.01 + (0.001 - 0.01) * 0.8)


def test_an_older_state_replaces_a_newer_one() -> None:
    learner = learner_of()
    state = learner.get_state()
    update(learner, 1)
    learner.set_state(state)
    assert np.array_equal(
        learner.module.get_state()["default_policy"]["pi.net.mlp.0.weight"],
        state["rl_module"]["default_policy"]["pi.net.mlp.0.weight"],
    )


def test_equal_seeds_give_equal_weights_and_other_seeds_others() -> None:
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed + len(weights))
        learner = learner_of(seed=seed)
        update(learner, 1)
        weights.append(learner.module.get_state()["default_policy"]["pi.net.mlp.0.weight"])
    assert np.array_equal(weights[0], weights[1]) and not np.array_equal(weights[0], weights[2])


class Regularized(PPOTorchLearner):
    """A learner with a loss and optimizers of its own."""

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        loss = super().compute_loss_for_module(
            module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
        )
        penalty = sum((p**2).sum() for p in self.get_parameters(self.module[module_id]))
        self.metrics.log_value((module_id, "penalty"), penalty, window=1)
        return loss + 1e-3 * penalty

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module = self.module[module_id]
        groups = {"actor": [*module.encoder.actor_encoder.parameters(), *module.pi.parameters()]}
        groups["critic"] = [*module.encoder.critic_encoder.parameters(), *module.vf.parameters()]
        for name, params in groups.items():
            optimizer = torch.optim.SGD(params)
            rate = 0.5 if name == "critic" else 0.0
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=optimizer,
                params=params,
                lr_or_lr_schedule=rate,
            )


def test_users_override_the_loss_and_the_optimizers() -> None:
    learner = learner_of(Regularized)
    before = learner.get_state()
    results = update(learner, 1)["default_policy"]
    after = learner.get_state()
    assert results["penalty"] > 0 and results["critic_learning_rate"] == 0.5
    old, new = (state["rl_module"]["default_policy"] for state in (before, after))
    assert np.array_equal(old["pi.net.mlp.0.weight"], new["pi.net.mlp.0.weight"])
    assert not np.array_equal(old["vf.net.mlp.0.weight"], new["vf.net.mlp.0.weight"])
    assert set(after["optimizer"]) == {"default_policy_actor", "default_policy_critic"}
    learner.set_state(after)


class Own(TorchRLModule, ValueFunctionAPI):
    """A module as users write it: ``setup`` and ``_forward``."""

    def setup(self) -> None:
        self.body = torch.nn.Linear(self.observation_space.shape[0], self.model_config["width"])
        self.logits = torch.nn.Linear(self.model_config["width"], int(self.action_space.n))
        self.value = torch.nn.Linear(self.model_config["width"], 1)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        hidden = torch.relu(self.body(batch[Columns.OBS]))
        return {Columns.ACTION_DIST_INPUTS: self.logits(hidden), Columns.EMBEDDINGS: hidden}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        hidden = torch.relu(self.body(batch[Columns.OBS])) if embeddings is None else embeddings
        return self.value(hidden).squeeze(-1)


class Curious(Own, SelfSupervisedLossAPI):
    """A module with its own loss."""

    def compute_self_supervised_loss(
        self, *, learner: Any, module_id: str, config: Any, batch: Any, fwd_out: Any, **kwargs: Any
    ) -> Any:
        learner.metrics.log_value((module_id, "own_loss"), 1.0, window=1)
        return (fwd_out[Columns.ACTION_DIST_INPUTS] ** 2).mean()


def test_users_write_their_own_modules(tmp_path: pathlib.Path) -> None:
    learner = learner_of(spec=spec_of(module_class=Own, width=7))
    assert update(learner, 1)["default_policy"]["vf_loss"] > 0
    path = learner.module["default_policy"].save_to_path(tmp_path / "own")
    assert type(Own.from_checkpoint(path)) is Own
    curious = update(learner_of(spec=spec_of(module_class=Curious, width=7)), 1)["default_policy"]
    assert curious["own_loss"] == 1.0 and "vf_loss" not in curious


def test_several_modules_learn_from_their_own_rows() -> None:
    specs = MultiRLModuleSpec(rl_module_specs={name: spec_of() for name in ("left", "right", "still")})
    learner = learner_of(spec=specs, policies_to_train=["left", "right"])
    before = learner.module.get_state()
    rollouts = {"left": [rollout_of(1)], "right": [rollout_of(2, steps=40)], "still": [rollout_of(3)]}
    results = learner.update(rollouts, timesteps={}, num_epochs=1, minibatch_size=16)
    after = learner.module.get_state()
    changed = {
        name: not np.array_equal(before[name]["pi.net.mlp.0.bias"], after[name]["pi.net.mlp.0.bias"])
        for name in before
    }
    assert changed == {"left": True, "right": True, "still": False}
    assert (
        MetricsLogger.peek_results(results)["right"]["num_module_steps_trained"]
        >= rollouts["right"][0].valid.sum()
    )
    with pytest.raises(ValueError, match="'upper'"):
        learner.update({"upper": {"obs": np.zeros((2, 4))}, "left": {}}, timesteps={})
    learner.add_module(module_id="new", module_spec=spec_of(), new_should_module_be_updated=["new"])
    learner.remove_module("still")
    results = learner.update({"new": [rollout_of(1)], "left": [rollout_of(1)]}, timesteps={})
    assert "num_module_steps_trained" in results["new"] and set(learner.module.keys()) == {
        "left",
        "right",
        "new",
    }


def test_gradients_that_are_not_finite_become_zero_or_leave_the_update_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for skip in (False, True):
        learner = learner_of(torch_skip_nan_gradients=skip, lr=0.1)
        before = learner.module.get_state()["default_policy"]
        gradients = {p: torch.ones_like(p) for p in learner.module["default_policy"].parameters()}
        first = next(iter(gradients))
        gradients[first] = torch.full_like(first, float("nan"))
        learner.apply_gradients(gradients)
        after = learner.module.get_state()["default_policy"]
        assert all(np.isfinite(array).all() for array in after.values())
        moved = not np.array_equal(before["vf.net.mlp.0.bias"], after["vf.net.mlp.0.bias"])
        assert moved is not skip
    assert "not finite" in caplog.text


def test_schedules_that_make_no_sense_are_refused() -> None:
    for schedule, words in (
        ([[5, 0.1], [10, 0.2]], "first step has to be 0"),
        ([[0, 0.1]], "two points"),
        ("x", "two points"),
    ):
        with pytest.raises(ValueError, match=words):
            learner_of(lr=schedule)
