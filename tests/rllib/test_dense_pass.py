"""Passes through plain networks while sampling: the bits of the module, and the module itself where there is more to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import nn

from skate.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module import RLModuleSpec
from skate.rllib.env.sampling.action_source import ActionSource
from tests.rllib.recordings import ARM, BOX, SMALL

PAIR = spaces.Discrete(2)


def module_of(kind: Any = DefaultPPOTorchRLModule, actions: Any = PAIR, **model: Any) -> Any:
    spec = RLModuleSpec(
        module_class=kind,
        observation_space=BOX,
        action_space=actions,
        inference_only=True,
        model_config={**SMALL, **model},
    )
    return spec.build()


def source_of(module: Any) -> ActionSource:
    return ActionSource(module, torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("kind", "actions", "model"),
    [
        (DefaultPPOTorchRLModule, PAIR, {"vf_share_layers": True}),
        (DefaultPPOTorchRLModule, PAIR, {"vf_share_layers": False, "fcnet_use_layernorm": True}),
        (DefaultPPOTorchRLModule, ARM, {"fcnet_activation": "relu", "head_fcnet_hiddens": [5]}),
        (DefaultSACTorchRLModule, ARM, {"fcnet_activation": "silu"}),
    ],
)
def test_outputs_and_actions_have_the_bits_of_the_module(
    kind: Any, actions: Any, model: dict[str, Any]
) -> None:
    module = module_of(kind, actions, **model)
    plain, general = source_of(module), source_of(module)
    rows = {Columns.OBS: torch.rand(5, 4)}
    for change in range(3):
        assert plain.prepare(True)
        with torch.no_grad():
            (mine, drawn), (theirs, expected) = (each.act(rows, True, 0) for each in (plain, general))
        assert torch.equal(drawn, expected)
        assert mine.keys() == theirs.keys() == {Columns.ACTION_DIST_INPUTS}
        assert torch.equal(mine[Columns.ACTION_DIST_INPUTS], theirs[Columns.ACTION_DIST_INPUTS])
        layers = module.pi.net.mlp
        if change == 0:
            layers[-1].weight.data.mul_(2.0)
        else:
            layers[-1] = nn.Linear(layers[-1].in_features, layers[-1].out_features)


def test_a_module_that_does_more_is_asked_itself() -> None:
    class Own(DefaultPPOTorchRLModule):
        def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            return {Columns.ACTION_DIST_INPUTS: super()._forward(batch)[Columns.ACTION_DIST_INPUTS] * 0.0}

    assert not source_of(module_of(Own)).prepare(True)
    assert not source_of(module_of(use_lstm=True, lstm_cell_size=4)).prepare(True)
    assert not source_of(module_of(actions=ARM, free_log_std=True)).prepare(True)
    module = module_of()
    source = source_of(module)
    assert source.prepare(True) and not source.prepare(False)
    seen: list[int] = []
    for part in (module.encoder, module.pi, module.pi.net.mlp[-1]):
        hook = part.register_forward_hook(lambda *args: seen.append(1))
        assert not source.prepare(True)
        with torch.no_grad():
            source.act({Columns.OBS: torch.rand(2, 4)}, True, 0)
        hook.remove()
        assert source.prepare(True)
    assert len(seen) == 3
    module.train()
    assert not source.prepare(True)


@pytest.mark.parametrize("model", [{"dueling": False}, {"dueling": True, "fcnet_activation": "relu"}])
def test_values_of_dqn_have_the_bits_and_the_gradients_of_its_networks(model: dict[str, Any]) -> None:
    spec = RLModuleSpec(
        module_class=DefaultDQNTorchRLModule,
        observation_space=BOX,
        action_space=PAIR,
        model_config={**SMALL, **model},
    )
    module = spec.build()
    module.make_target_networks()
    batch = {Columns.OBS: torch.rand(5, 4), Columns.NEXT_OBS: torch.rand(5, 4)}
    seen: list[int] = []

    def figures() -> list[torch.Tensor]:
        module.zero_grad()
        out = module.forward_train(batch)
        out["qf_preds"].square().sum().backward()
        return [*out.values(), *(each.grad for each in module.parameters() if each.grad is not None)]

    plain = figures()
    assert module._plain_calls(module.af, torch.rand(5, 6)) is not None
    hooks = [
        part.register_forward_hook(lambda *args: seen.append(1))
        for part in (module.encoder, module.af, module._target_af.net.mlp[-1])
    ]
    general = figures()
    # Double Q asks the networks twice.
    assert len(seen) == 5 and len(plain) == len(general) > 8
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(plain, general, strict=True))
    for hook in hooks:
        hook.remove()
    module.af.net.mlp[-1] = nn.Linear(6, 2)
    assert not torch.equal(figures()[0], plain[0]) and len(seen) == 5
    copied = copy.deepcopy(module)
    assert torch.equal(copied.forward_train(batch)["qf_preds"], module.forward_train(batch)["qf_preds"])
