"""Several learners: the same weights everywhere, and the update of one learner on all rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import skate as ray
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.learner_group import LearnerGroup
from skate.rllib.core.learner.peers import GradientGroup, free_port, shares_of
from skate.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from tests.rllib.test_ppo_learner import config_of, rollout_of, spec_of

# The transport of torch opens one pipe for the life of the process, with the first group: here, before any test counts.
GradientGroup("127.0.0.1", free_port(), 0, 1).close()


@pytest.fixture
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def weights_of(learner: object) -> np.ndarray:
    return learner.module.get_state()["default_policy"]["pi.net.mlp.0.weight"]


@pytest.mark.usefixtures("session")
def test_learners_average_gradients_and_stay_equal(tmp_path: Path) -> None:
    one = LearnerGroup(config=config_of(), module_spec=spec_of())
    two = LearnerGroup(config=config_of(num_learners=2), module_spec=spec_of())
    try:
        batch = one._learner.make_batches([rollout_of(1)])["default_policy"]
        rows = {name: column.numpy()[:40] for name, column in batch.items()}
        halves = [
            MultiAgentBatch(
                {"default_policy": SampleBatch({name: column[part] for name, column in rows.items()})}, 20
            )
            for part in (slice(20), slice(20, 40))
        ]
        one.update(batch_refs=[ray.put(half) for half in halves], timesteps={}, num_epochs=3)
        results = two.update(batches=halves, timesteps={}, num_epochs=3, return_state=True)
        after = results[0]["_rl_module_state_after_update"]["rl_module"]["default_policy"]
        assert np.array_equal(after["pi.net.mlp.0.weight"], weights_of(two._learner)) and len(results) == 2
        with pytest.raises(ValueError, match="one kind of samples, got batch and episodes"):
            one.update(batch=rows, episodes=[])
        with pytest.raises(ValueError, match="async_update=True is of IMPALA and APPO"):
            one.update(batch=rows, async_update=True)
        found = [weights_of(one._learner), *two.foreach_learner(weights_of)]
        # Equal shares without minibatches: the mean of the means is the mean of all rows.
        np.testing.assert_allclose(found[0], found[1], atol=1e-5)
        assert np.array_equal(found[1], found[2])
        # Shares of different sizes, in minibatches.
        results = two.update(
            [rollout_of(2), rollout_of(3, lanes=3)], timesteps={}, num_epochs=2, minibatch_size=8
        )
        found = two.foreach_learner(weights_of)
        assert np.array_equal(found[0], found[1]) and len(results) == len(two) == 2
        two.set_state(one.get_state())
        found = [weights_of(one._learner), *two.foreach_learner(weights_of)]
        assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
        # A folder that is restored, or a part of it, goes to all of them.
        saved = Path(one.save_to_path(tmp_path / "saved"))
        for folder, component in (
            (saved, None),
            (saved / "learner" / "rl_module" / "default_policy", "learner/rl_module/default_policy"),
        ):
            two.update([rollout_of(2)], timesteps={})
            two.restore_from_path(folder, component=component)
            assert all(np.array_equal(found[0], each) for each in two.foreach_learner(weights_of))
    finally:
        two.shutdown()


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shares_have_each_step_once(count: int) -> None:
    rollouts = [rollout_of(1), rollout_of(2, steps=7, lanes=1)]
    shares = shares_of(rollouts, count)
    every = np.sort(np.concatenate([r.columns[Columns.OBS][r.valid][:, 0] for r in rollouts]))
    shared = [r.columns[Columns.OBS][r.valid][:, 0] for share in shares for r in share]
    assert np.array_equal(np.sort(np.concatenate(shared)), every)
    rows = {"default_policy": {"a": np.arange(11), "b": np.arange(11) * 2}}
    parts = [share["default_policy"] for share in shares_of(rows, count)]
    assert np.concatenate([part["a"] for part in parts]).tolist() == list(range(11))
    assert all((part["b"] == part["a"] * 2).all() for part in parts)
