"""Noise in the weights of DQN's heads: its formula, who draws it, seeds, and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from skate.rllib.core.columns import Columns
from skate.rllib.core.models.torch.noisy import NoisyLinear, make_noisy, noise_in
from skate.rllib.core.rl_module import RLModuleSpec
from tests.rllib.test_dqn_algorithm import small
from tests.rllib.test_ppo import digest

OBS = {Columns.OBS: torch.linspace(-1, 1, 12).reshape(3, 4)}


def test_a_layer_adds_products_of_two_numbers_to_its_weights() -> None:
    dense = nn.Linear(3, 2)
    layer = NoisyLinear(dense, sigma0=0.6)
    inputs = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, 1.0]])
    assert torch.equal(layer(inputs), dense(inputs))
    assert torch.allclose(layer.weight_sigma, torch.tensor(0.6 / 3**0.5))
    drawn = torch.randn(5, generator=torch.Generator().manual_seed(4))
    before, after = (torch.sign(part) * part.abs().sqrt() for part in (drawn[:3], drawn[3:]))
    weight = layer.weight + layer.weight_sigma * torch.outer(after, before)
    bias = layer.bias + layer.bias_sigma * after
    with noise_in([layer], torch.Generator().manual_seed(4)):
        found = layer(inputs)
    assert torch.allclose(found, inputs @ weight.T + bias, atol=1e-6)
    found.sum().backward()
    assert layer.weight_sigma.grad is not None and layer.weight_sigma.grad.abs().sum() > 0
    assert torch.equal(layer(inputs), dense(inputs)), "the noise ends with its block"


def test_dense_layers_become_noisy_ones_with_the_same_names() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1, bias=False)))
    names, before = {name for name, _ in network.named_parameters()}, network(torch.ones(1, 2))
    make_noisy(network, 0.5)
    added = {name for name, _ in network.named_parameters()} - names
    assert added == {"0.weight_sigma", "0.bias_sigma", "2.0.weight_sigma"}
    assert torch.equal(network(torch.ones(1, 2)), before)


def module_of(**model: Any) -> Any:
    spec = RLModuleSpec(
        module_class=DefaultDQNTorchRLModule,
        observation_space=gym.spaces.Box(-1, 1, (4,), np.float32),
        action_space=gym.spaces.Discrete(6),
        model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": [], "epsilon": 0.0, **model},
    )
    return spec.build()


def test_exploration_and_training_draw_noise_and_inference_does_not() -> None:
    module = module_of(noisy=True, std_init=5.0)
    module.make_target_networks()
    explored = [module.forward_exploration(OBS)[Columns.ACTIONS].tolist() for _ in range(20)]
    assert len({tuple(each) for each in explored}) > 1
    inferred = [module.forward_inference(OBS)[Columns.ACTIONS].tolist() for _ in range(5)]
    assert all(each == inferred[0] for each in inferred)
    batch = {**OBS, Columns.NEXT_OBS: OBS[Columns.OBS]}
    outs = [module.forward_train(batch) for _ in range(2)]
    for key in ("qf_preds", "qf_next_preds", "qf_target_next_preds"):
        assert not torch.allclose(outs[0][key], outs[1][key]), key
    assert not torch.allclose(outs[0]["qf_preds"], outs[0]["qf_target_next_preds"]), "each has its own noise"
    plain = module_of()
    assert not any(isinstance(layer, NoisyLinear) for layer in plain.modules())


@pytest.mark.parametrize("settings", [{}, {"dueling": False, "num_atoms": 5}], ids=["dueling", "atoms"])
def test_an_algorithm_repeats_itself_and_continues_from_a_checkpoint(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    def config() -> Any:
        made = small().training(
            noisy=True, sigma0=0.4, epsilon=0.0, store_buffer_in_checkpoints=True, **settings
        )
        return made.reporting(min_sample_timesteps_per_iteration=200)

    algorithm = config().build_algo()
    before = algorithm.get_module().get_state()["af.net.mlp.0.weight_sigma"].copy()
    assert before.min() == pytest.approx(0.4 / 32**0.5)
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "saved")
    assert not np.array_equal(algorithm.get_module().get_state()["af.net.mlp.0.weight_sigma"], before)
    algorithm.train()
    expected = digest(algorithm)
    algorithm.stop()
    restored = Algorithm.from_checkpoint(path)
    restored.train()
    assert digest(restored) == expected
    restored.stop()
    again = config().build_algo()
    again.train()
    again.train()
    assert digest(again) == expected
    again.stop()


def test_noise_without_a_size_is_refused() -> None:
    with pytest.raises(ValueError, match="sigma0"):
        small().training(noisy=True, sigma0=0.0).validate()
