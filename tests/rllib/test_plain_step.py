"""Steps without dicts of gradients: the same bits as the general way, which learners of one's own still go."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from torch import nn

from skate.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from skate.rllib.core.learner.targets import Parameters, TargetNetworks, update_target_network
from skate.rllib.core.learner.torch.plain_step import can_step_plainly, leaves_gradients_alone
from skate.rllib.core.learner.torch.torch_learner import TorchLearner
from tests.rllib.recordings import recorded
from tests.rllib.test_ppo_learner import learner_of, update
from tests.rllib.test_q_learners import group_of


def generally(learner: Any) -> Any:
    """Let a learner go the general way, as one with a method of its own does."""
    own = learner.postprocess_gradients
    learner.postprocess_gradients = lambda gradients: own(gradients)
    return learner


def is_plain(learner: Any) -> bool:
    return leaves_gradients_alone(learner, TorchLearner) and can_step_plainly(learner)


@pytest.mark.parametrize("clip", [None, 0.01, 1e3])
@pytest.mark.parametrize("name", ["dqn_dueling", "sac_box"])
def test_q_learners_step_to_the_same_bits(name: str, clip: float | None) -> None:
    batch = {"default_policy": recorded(f"q_loss_{name}")["batch"]}
    groups = [group_of(name, grad_clip=clip, grad_clip_by="global_norm") for _ in range(2)]
    generally(groups[1]._learner)
    assert [is_plain(group._learner) for group in groups] == [True, False]
    for step in range(3):
        for group in groups:
            group.update(batch=batch, timesteps={"num_env_steps_sampled_lifetime": 600 * step})
    mine, theirs = (group.get_weights()["default_policy"] for group in groups)
    assert all((array == theirs[key]).all() for key, array in mine.items())


def test_ppo_steps_to_the_same_bits_and_asks_for_norms_generally() -> None:
    learners = [learner_of(grad_clip=0.3), generally(learner_of(grad_clip=0.3))]
    for learner in learners:
        update(learner, 3)
    mine, theirs = (learner.module.get_state()["default_policy"] for learner in learners)
    assert all((array == theirs[key]).all() for key, array in mine.items())
    for settings in ({"log_gradients": True}, {"grad_clip": 1.0, "grad_clip_by": "norm"}):
        assert not is_plain(learner_of(**settings))


def test_gradients_that_are_not_finite_become_zero(caplog: pytest.LogCaptureFixture) -> None:
    class Exploding(SACTorchLearner):
        def compute_loss_for_module(self, **kwargs: Any) -> Any:
            return super().compute_loss_for_module(**kwargs) * float("inf")

    group = group_of("sac_box", learner_class=Exploding)
    assert is_plain(group._learner)
    before = group.get_weights()["default_policy"]
    with caplog.at_level(logging.WARNING):
        group.update(batch={"default_policy": recorded("q_loss_sac_box")["batch"]}, timesteps={})
    assert "gradients are not finite" in caplog.text
    after = group.get_weights()["default_policy"]
    assert all((array == after[key]).all() for key, array in before.items() if not key.startswith("target"))


def test_target_networks_move_together_to_the_same_bits() -> None:
    torch.manual_seed(1)
    mains = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(2)]
    targets = [copy.deepcopy(main).requires_grad_(False) for main in mains]
    others = copy.deepcopy(targets)
    together = TargetNetworks()
    for tau in (0.1, 0.1, 1.0):
        for main in mains:
            for parameter in main.parameters():
                parameter.data.add_(torch.randn(parameter.shape))
        together.move(list(zip(mains, targets, strict=True)), tau)
        for main, target in zip(mains, others, strict=True):
            update_target_network(main_net=main, target_net=target, tau=tau)
        pairs = zip(targets, others, strict=True)
        assert all(
            torch.equal(a, b)
            for mine, theirs in pairs
            for a, b in zip(mine.parameters(), theirs.parameters(), strict=True)
        )


def test_a_parameter_that_was_replaced_is_looked_up_again() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    known = Parameters()
    for _ in range(2):
        assert [id(each) for each in known.of([network])] == [id(each) for each in network.parameters()]
        network[1].weight = nn.Parameter(torch.ones(1, 2))
    assert known.of([network]) is known.of([network])
