"""A node that is killed with the runners and a learner on it: training continues on another node, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import skate as ray
from skate.cluster_utils import Cluster
from skate.rllib.algorithms.ppo import PPOConfig
from tests.rllib import test_several_learners  # noqa: F401  opens the pipe that torch keeps, before the test counts

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without CPUs, which is this process's, and a node with room for two runners and a learner."""
    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        made.add_node(num_cpus=3)
        ray.init(address=made.address, log_to_driver=False)
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def here(each: Any) -> str:
    """Return the id of the node that this runs on."""
    name: str = ray.get_runtime_context().get_node_id()
    return name


def trained(during: Callable[[Any], None]) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Train three iterations on two runners and two learners, and call a function after the first."""
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, sample_timeout_s=60)
        .learners(num_learners=2, num_cpus_per_learner=1)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=2)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .debugging(seed=3)
        .build_algo()
    )
    try:
        algorithm.train()
        during(algorithm)
        for _ in range(2):
            result = algorithm.train()
        weights = algorithm.get_weights()["default_policy"]
        return [weights[name] for name in sorted(weights)], result
    finally:
        algorithm.stop()


def test_a_killed_node_with_runners_and_a_learner_changes_no_bit(cluster: Cluster) -> None:
    def lose(algorithm: Any) -> None:
        [doomed] = cluster.worker_nodes
        homes = algorithm.env_runner_group.foreach_env_runner(here, local_env_runner=False)
        homes += algorithm.learner_group.foreach_learner(here)[1:]
        assert homes == [doomed.node_id] * 3
        cluster.add_node(num_cpus=3)
        cluster.wait_for_nodes()
        cluster.remove_node(doomed, allow_graceful=False)

    expected, quiet = trained(lambda algorithm: None)
    found, result = trained(lose)
    assert all(map(np.array_equal, found, expected))
    assert result["num_env_steps_sampled_lifetime"] == quiet["num_env_steps_sampled_lifetime"] == 3 * 128
    assert result["fault_tolerance"]["num_healthy_workers"] == 2
    assert result["fault_tolerance"]["num_remote_worker_restarts"] >= 1
