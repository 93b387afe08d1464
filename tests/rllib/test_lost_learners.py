"""Learners that die or raise in the middle of an update: the group starts again from the state before, and never hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skate as ray
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from skate.rllib.core.learner.learner_group import LearnerGroup
from tests.rllib.test_ppo_learner import config_of, rollout_of, spec_of
from tests.rllib.test_several_learners import weights_of


class Mortal(PPOTorchLearner):
    """Kills its process or raises in the second minibatch, if a file says so; the file is gone then."""

    minibatches = 0

    def compute_loss_for_module(self, *, config: Any, **kwargs: Any) -> Any:
        plan = config.learner_config_dict
        self.minibatches += 1
        order = Path(plan["folder"], "first" if os.getpid() == plan["driver"] else "other")
        if self.minibatches % 8 == 2 and order.exists():
            how = order.read_text()
            order.unlink()
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ArithmeticError("this share is broken")
        return super().compute_loss_for_module(config=config, **kwargs)


@pytest.fixture
def session() -> Iterator[None]:
    ray.init(num_cpus=3, preload=["torch"])
    yield
    ray.shutdown()


def update(group: LearnerGroup) -> np.ndarray:
    """Update in eight minibatches on the same rows as ever, and return the weights, which all learners have."""
    samples = [rollout_of(1), rollout_of(2)]
    group.update(samples, timesteps={}, num_epochs=4, minibatch_size=30, shuffle_batch_per_epoch=True)
    found = group.foreach_learner(weights_of)
    assert all(np.array_equal(found[0], each) for each in found)
    first: np.ndarray = found[0]
    return first


@pytest.fixture
def group(session: None, tmp_path: Path) -> Iterator[LearnerGroup]:
    plan = {"folder": str(tmp_path), "driver": os.getpid()}
    config = config_of(num_learners=2, learner_class=Mortal, learner_config_dict=plan)
    made = LearnerGroup(config=config, module_spec=spec_of())
    yield made
    made.shutdown()


def test_a_killed_learner_changes_no_bit(
    group: LearnerGroup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = group.get_state()
    expected = update(group)
    group.set_state(before)
    (tmp_path / "other").write_text("kill")
    assert np.array_equal(update(group), expected)
    assert not (tmp_path / "other").exists() and "A learner died" in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("who", ["first", "other"])
def test_an_error_comes_out_though_other_learners_wait_for_gradients(
    group: LearnerGroup, tmp_path: Path, who: str
) -> None:
    before = group.get_state()
    (tmp_path / who).write_text("raise")
    with pytest.raises(ArithmeticError, match="this share is broken"):
        update(group)
    assert not (tmp_path / who).exists()
    # The group continues as it was before.
    after = update(group)
    group.set_state(before)
    assert np.array_equal(update(group), after)


@pytest.mark.usefixtures("session")
@pytest.mark.long
def test_a_learner_killed_in_train_changes_no_bit(tmp_path: Path) -> None:
    found = []
    for killed in (False, True):
        algorithm = (
            PPOConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
            .learners(num_learners=2)
            .training(
                train_batch_size_per_learner=64,
                minibatch_size=32,
                num_epochs=2,
                learner_class=Mortal,
                learner_config_dict={"folder": str(tmp_path), "driver": os.getpid()},
            )
            .debugging(seed=3)
            .build_algo()
        )
        for iteration in range(3):
            if killed and iteration == 1:
                (tmp_path / "other").write_text("kill")
            result = algorithm.train()
        assert result["num_env_steps_sampled_lifetime"] == 3 * 128
        assert not (tmp_path / "other").exists()
        found.append(algorithm.get_weights()["default_policy"])
        algorithm.stop()
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
