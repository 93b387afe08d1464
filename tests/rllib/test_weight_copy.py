"""Weights that go from a learner to the runner of the same process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.core.rl_module import RLModuleSpec
from skate.rllib.core.rl_module.torch.weight_copy import WeightCopy
from skate.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from tests.rllib.recordings import BOX, SMALL
from tests.rllib.tiny_module import config


def module_of(kind: Any, inference_only: bool, **model: Any) -> Any:
    spec = RLModuleSpec(
        module_class=kind,
        observation_space=BOX,
        action_space=spaces.Discrete(2),
        inference_only=inference_only,
        model_config={**SMALL, **model},
    )
    return spec.build()


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (DefaultPPOTorchRLModule, {"vf_share_layers": False}),
        (DefaultPPOTorchRLModule, {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3}),
        (DefaultDQNTorchRLModule, {}),
    ],
)
def test_a_copy_is_what_a_state_would_be(kind: Any, model: dict[str, Any]) -> None:
    source, target, other = (
        module_of(kind, inference_only, **model) for inference_only in (False, True, True)
    )
    assert WeightCopy.can_copy(source, target)
    assert not WeightCopy.can_copy(source, module_of(kind, True, fcnet_hiddens=[9]))
    copy = WeightCopy(source, target)
    for number in range(3):
        for parameter in source.parameters():
            parameter.data.normal_()
        if number == 2:
            # A layer that is given another tensor is looked at again.
            layer = next(each for each in source.modules() if isinstance(each, torch.nn.Linear))
            layer.weight = torch.nn.Parameter(torch.full_like(layer.weight, 7.0))
        copy.run()
        other.set_state(source.get_state(inference_only=True))
        ours, theirs = target.get_state(), other.get_state()
        sent = source.get_state(inference_only=True)
        assert sent.keys() <= ours.keys() == theirs.keys()
        for name in sent:
            np.testing.assert_array_equal(ours[name], theirs[name])
    assert any((value == 7.0).all() for value in target.get_state().values())


def test_states_of_a_users_own_making_are_not_passed_by() -> None:
    class Doubling(DefaultPPOTorchRLModule):
        def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {name: 2 * value for name, value in super().get_state(*args, **kwargs).items()}

    plain, own = module_of(DefaultPPOTorchRLModule, True), module_of(Doubling, False)
    assert not WeightCopy.can_copy(own, plain)

    class Noting(SingleAgentEnvRunner):
        def set_state(self, state: dict[str, Any]) -> None:
            super().set_state(state)

    runner = Noting(config=config())
    assert not runner.copy_weights({"default_policy": plain}, 1)
