"""Modules against recordings of Ray's: the same names of parameters, and the same outputs from the same weights."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.core.rl_module import MultiRLModule, MultiRLModuleSpec, RLModule, RLModuleSpec
from tests.rllib.recordings import BOX, FIXTURES, MODULES, SMALL, recorded, tensors


def built(name: str, **overrides: object) -> DefaultPPOTorchRLModule:
    observations, actions, model = MODULES[name]
    arguments = {
        "observation_space": observations,
        "action_space": actions,
        "model_config": model,
        **overrides,
    }
    return RLModuleSpec(module_class=DefaultPPOTorchRLModule, **arguments).build()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_parameters_and_outputs_of_rays(name: str) -> None:
    theirs = recorded(f"module_{name}")
    module = built(name)
    mine = module.get_state()
    assert {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in theirs["state"].items()}
    module.set_state(theirs["state"])
    batch = tensors(theirs["in"])
    outs = module.forward_inference(batch)
    for key, value in tensors(theirs["out"]).items():
        torch.testing.assert_close(outs[key], value, rtol=1e-6, atol=1e-6)
    values = module.compute_values(batch).detach()
    torch.testing.assert_close(values, torch.as_tensor(theirs["values"]), rtol=1e-6, atol=1e-6)
    kind = module.get_inference_action_dist_cls()
    best = kind.from_logits(outs["action_dist_inputs"]).to_deterministic().sample()
    torch.testing.assert_close({"best": best}, tensors({"best": theirs["best"]}))


def test_a_checkpoint_of_ray_opens_and_gives_the_same_logits() -> None:
    module = RLModule.from_checkpoint(FIXTURES / "checkpoint_box_apart")
    assert type(module) is DefaultPPOTorchRLModule and type(module.catalog) is PPOCatalog
    theirs = recorded("module_box_apart")
    outs = module.forward_inference(tensors(theirs["in"]))
    torch.testing.assert_close(
        outs["action_dist_inputs"], torch.as_tensor(theirs["out"]["action_dist_inputs"]), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", ["discrete_shared", "box_apart", "lstm_apart", "image"])
def test_a_saved_module_opens_with_its_state(name: str, tmp_path: pathlib.Path) -> None:
    module = built(name)
    again = RLModule.from_checkpoint(module.save_to_path(tmp_path / "module"))
    assert type(again) is type(module) and again.observation_space == module.observation_space
    mine, theirs = module.get_state(), again.get_state()
    assert mine.keys() == theirs.keys() and all(np.array_equal(mine[k], theirs[k]) for k in mine)


def test_several_modules_open_one_by_one_and_together(tmp_path: pathlib.Path) -> None:
    specs = {name: RLModuleSpec.from_module(built(name)) for name in ("discrete_shared", "box_apart")}
    modules = MultiRLModuleSpec(rl_module_specs=specs).build()
    path = modules.save_to_path(tmp_path / "rl_module")
    together = MultiRLModule.from_checkpoint(path)
    alone = RLModule.from_checkpoint(tmp_path / "rl_module" / "box_apart")
    expected = modules["box_apart"].get_state()
    for again in (together["box_apart"], alone):
        assert all(np.array_equal(array, again.get_state()[name]) for name, array in expected.items())
    with pytest.raises(ValueError, match="not of a MultiRLModule"):
        MultiRLModule.from_checkpoint(tmp_path / "rl_module" / "box_apart")


def test_a_module_for_inference_has_no_critic_and_takes_the_state_without_one() -> None:
    whole, small = built("discrete_apart"), built("discrete_apart", inference_only=True)
    state = whole.get_state(inference_only=True)
    assert set(state) == set(small.get_state())
    assert not any(name.startswith(("vf", "encoder.critic_encoder")) for name in state)
    small.set_state(state)
    batch = {"obs": torch.rand(5, 4)}
    inputs = whole.forward_exploration(batch)["action_dist_inputs"]
    assert torch.equal(inputs, small.forward_exploration(batch)["action_dist_inputs"])
    with pytest.raises(RuntimeError, match="inference_only=False"):
        small.forward_train(batch)
    with pytest.raises(ValueError, match="pi.net.mlp.0.weight"):
        small.set_state({name: array for name, array in state.items() if name != "pi.net.mlp.0.weight"})


def test_only_forward_train_records_gradients() -> None:
    module = built("discrete_shared")
    module.train()
    batch = {"obs": torch.rand(5, 4)}
    assert not module.forward_inference(batch)["action_dist_inputs"].requires_grad and module.training
    assert module.forward_train(batch)["action_dist_inputs"].requires_grad


@pytest.mark.parametrize("size", [10, 42, 64, 84, 96, 17, (30, 20)])
def test_images_of_any_size_have_a_default_network(size: int | tuple[int, int]) -> None:
    height, width = size if isinstance(size, tuple) else (size, size)
    space = spaces.Box(0, 255, (height, width, 3), np.uint8)
    module = built("discrete_shared", observation_space=space)
    frames = torch.as_tensor(np.stack([space.sample(), space.sample()]))
    assert module.forward_inference({"obs": frames})["action_dist_inputs"].shape == (2, 2)


def test_mistakes_are_answered_with_what_to_write() -> None:
    with pytest.raises(ValueError, match="did you mean 'fcnet_hiddens'"):
        built("discrete_shared", model_config={"fcnet_hidden": [3]})
    with pytest.raises(ValueError, match="FlattenObservations"):
        built("discrete_shared", observation_space=spaces.Discrete(3))
    with pytest.raises(ValueError, match="unknown activation 'rely'"):
        built("discrete_shared", model_config={"fcnet_activation": "rely"})
    with pytest.raises(ValueError, match="unknown initializer"):
        built("discrete_shared", model_config={"fcnet_kernel_initializer": "orthogonal"})
    with pytest.raises(ValueError, match="module_class"):
        RLModuleSpec(observation_space=BOX).build()
    with pytest.raises(ValueError, match="rl_module_specs"):
        MultiRLModuleSpec()


def test_initializers_fill_every_layer() -> None:
    model = {
        **SMALL,
        "fcnet_kernel_initializer": "constant_",
        "fcnet_kernel_initializer_kwargs": {"val": 0.5},
    }
    module = built("discrete_shared", model_config={**model, "head_fcnet_bias_initializer": "zeros_"})
    state = module.get_state()
    assert (state["encoder.encoder.net.mlp.0.weight"] == 0.5).all() and (
        state["encoder.encoder.net.mlp.2.weight"] == 0.5
    ).all()
    assert (state["pi.net.mlp.0.bias"] == 0).all() and not (state["pi.net.mlp.0.weight"] == 0.5).any()
