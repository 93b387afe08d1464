"""RLModules by themselves: specs, forward passes, distributions, states, several modules, and checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog, _check_if_diag_gaussian
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDeterministic,
    TorchDiagGaussian,
    TorchMultiCategorical,
    TorchSquashedGaussian,
)
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.annotations import override

BOX = gym.spaces.Box(-1, 1, (4,), np.float32)
ARM = gym.spaces.Box(-1, 1, (3,), np.float32)
SMALL = {"fcnet_hiddens": [5]}


def spec(actions: Any = gym.spaces.Discrete(2), **settings: Any) -> RLModuleSpec:
    return RLModuleSpec(
        module_class=DefaultPPOTorchRLModule, observation_space=BOX, action_space=actions, catalog_class=PPOCatalog,
        model_config={**SMALL, "vf_share_layers": False, **settings},
    )  # fmt: skip


class Linear(TorchRLModule, ValueFunctionAPI):
    """A module of a user, with one forward pass for all."""

    def setup(self) -> None:
        torch.manual_seed(1)
        inputs, outputs = self.observation_space.shape[0], self.action_space.n
        self.layer = torch.nn.Linear(inputs, self.model_config.get("width", 3))
        self.head = torch.nn.Linear(self.model_config.get("width", 3), outputs)
        self.value = torch.nn.Linear(inputs, 1)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.head(torch.tanh(self.layer(batch[Columns.OBS])))}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {**self._forward(batch), "of_training": True}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        return self.value(batch[Columns.OBS]).squeeze(-1)


def linear(**kwargs: Any) -> RLModuleSpec:
    return RLModuleSpec(
        module_class=Linear, observation_space=BOX, action_space=gym.spaces.Discrete(2), **kwargs
    )


@pytest.mark.parametrize(
    ("actions", "size"),
    [(gym.spaces.Discrete(2), 2), (ARM, 6), (gym.spaces.MultiDiscrete([2, 3]), 5)],
    ids=["choice", "box", "choices"],
)
def test_forward_passes_of_a_default_module(actions: Any, size: int) -> None:
    module = spec(actions).build()
    batch = {Columns.OBS: torch.zeros(7, 4)}
    for forward in (module.forward_inference, module.forward_exploration, module.forward_train):
        assert forward(batch)[Columns.ACTION_DIST_INPUTS].shape == (7, size)
    assert module.compute_values(batch).shape == (7,)
    assert isinstance(module, ValueFunctionAPI) and isinstance(module, InferenceOnlyAPI)
    kinds = {module.get_train_action_dist_cls(), module.get_exploration_action_dist_cls()}
    assert len(kinds) == 1 and module.get_inference_action_dist_cls() is not None
    assert not module.is_stateful() and module.get_initial_state() in ({}, None)
    assert module.framework == "torch" and (module.observation_space, module.action_space) == (BOX, actions)


@pytest.mark.parametrize("share", [False, True])
def test_an_inference_only_module_has_no_value_network(share: bool) -> None:
    whole = spec(vf_share_layers=share).build()
    part = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule, observation_space=BOX, action_space=gym.spaces.Discrete(2),
        catalog_class=PPOCatalog, model_config={**SMALL, "vf_share_layers": share}, inference_only=True,
    ).build()  # fmt: skip
    assert part.inference_only and not whole.inference_only
    state = whole.get_state(inference_only=True)
    assert set(state) == set(part.get_state()) < set(whole.get_state())
    assert not [name for name in state if name.startswith("vf.")]
    part.set_state(state)
    batch = {Columns.OBS: torch.ones(2, 4)}
    theirs = whole.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
    assert torch.allclose(part.forward_inference(batch)[Columns.ACTION_DIST_INPUTS], theirs)


def test_a_module_with_memory() -> None:
    module = spec(use_lstm=True, lstm_cell_size=6, max_seq_len=5, vf_share_layers=True).build()
    assert module.is_stateful()
    initial = module.get_initial_state()
    state = {name: torch.stack([torch.as_tensor(value)] * 2) for name, value in initial.items()}
    out = module.forward_exploration({Columns.OBS: torch.zeros(2, 1, 4), Columns.STATE_IN: state})
    assert set(out[Columns.STATE_OUT]) == set(initial) == {"h", "c"}
    assert out[Columns.STATE_OUT]["h"].shape[-1] == 6
    assert out[Columns.ACTION_DIST_INPUTS].shape == (2, 1, 2)


def test_a_module_of_dqn() -> None:
    module = RLModuleSpec(
        module_class=DefaultDQNTorchRLModule, observation_space=BOX, action_space=gym.spaces.Discrete(3),
        catalog_class=DQNCatalog,
        model_config={**SMALL, "head_fcnet_hiddens": [4], "dueling": True, "double_q": True, "num_atoms": 1,
                      "epsilon": [(0, 1.0), (10, 0.05)], "std_init": 0.1, "v_min": -1.0, "v_max": 1.0},
    ).build()  # fmt: skip
    assert isinstance(module, TargetNetworkAPI) or hasattr(module, "make_target_networks")
    batch = {Columns.OBS: torch.zeros(4, 4)}
    assert module.forward_inference(batch)[Columns.ACTIONS].shape == (4,)
    values = module.compute_q_values(batch)
    assert values["qf_preds"].shape == (4, 3)


def test_a_module_of_sac() -> None:
    module = RLModuleSpec(
        module_class=DefaultSACTorchRLModule, observation_space=BOX, action_space=ARM, catalog_class=SACCatalog,
        model_config={**SMALL, "head_fcnet_hiddens": [4], "twin_q": True},
    ).build()  # fmt: skip
    batch = {Columns.OBS: torch.zeros(4, 4)}
    logits = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
    assert logits.shape == (4, 6)
    kind = module.get_inference_action_dist_cls()
    actions = kind.from_logits(logits).to_deterministic().sample()
    assert actions.shape == (4, 3) and bool((actions.abs() <= 1).all())


def test_a_spec_is_completed_and_compared() -> None:
    made = linear(model_config={"width": 2})
    module = made.build()
    assert type(module) is Linear and module.model_config["width"] == 2
    again = RLModuleSpec.from_module(module)
    assert again.module_class is Linear and again.observation_space == BOX
    other = RLModuleSpec()
    other.update(made)
    assert (other.module_class, other.action_space) == (Linear, gym.spaces.Discrete(2))
    with pytest.raises(ValueError):
        RLModuleSpec(observation_space=BOX, action_space=ARM).build()


def test_settings_of_networks_as_an_object() -> None:
    module = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule, observation_space=BOX, action_space=ARM, catalog_class=PPOCatalog,
        model_config=DefaultModelConfig(fcnet_hiddens=[7], head_fcnet_hiddens=[3], free_log_std=True),
    ).build()  # fmt: skip
    names = set(module.get_state())
    assert any("log_std" in name for name in names)
    assert module.get_state()["encoder.encoder.net.mlp.0.weight"].shape == (7, 4)


def test_a_module_of_a_user() -> None:
    module = linear().build()
    batch = {Columns.OBS: torch.zeros(3, 4)}
    assert set(module.forward_inference(batch)) == {Columns.ACTION_DIST_INPUTS}
    assert module.forward_train(batch)["of_training"] and module.compute_values(batch).shape == (3,)
    state = module.get_state()
    assert set(state) == {
        f"{layer}.{part}" for layer in ("layer", "head", "value") for part in ("weight", "bias")
    }
    assert all(isinstance(each, np.ndarray) for each in state.values())
    other = linear().build()
    other.set_state({name: value * 0 for name, value in state.items()})
    assert not other.forward_inference(batch)[Columns.ACTION_DIST_INPUTS].any()
    assert other.unwrapped() is other


def test_a_checkpoint_of_a_module(tmp_path: Any) -> None:
    module = linear(model_config={"width": 4}).build()
    path = module.save_to_path(str(tmp_path / "saved"))
    for kind in (RLModule, Linear):
        again = kind.from_checkpoint(path)
        assert type(again) is Linear and again.model_config["width"] == 4
        assert all(
            np.array_equal(again.get_state()[name], value) for name, value in module.get_state().items()
        )
    other = linear(model_config={"width": 4}).build()
    other.set_state({name: value * 0 for name, value in other.get_state().items()})
    other.restore_from_path(path)
    assert np.array_equal(other.get_state()["layer.weight"], module.get_state()["layer.weight"])
    loaded = RLModuleSpec(
        module_class=Linear, observation_space=BOX, action_space=gym.spaces.Discrete(2), model_config={"width": 4},
        load_state_path=path,
    )  # fmt: skip
    assert loaded.load_state_path == path
    metadata = module.get_metadata()
    assert (
        metadata["class_and_ctor_args_file"] == "class_and_ctor_args.pkl"
        and metadata["state_file"] == "module_state"
    )


def several() -> MultiRLModule:
    return MultiRLModuleSpec(rl_module_specs={"a": linear(), "b": spec()}).build()


def test_several_modules_are_like_a_dict() -> None:
    modules = several()
    assert set(modules.keys()) == {"a", "b"} and len(modules) == 2 and "a" in modules
    assert type(modules["a"]) is Linear and {key for key, _ in modules.items()} == {"a", "b"}
    assert {type(each) for each in modules.values()} == {Linear, DefaultPPOTorchRLModule}
    assert modules.get("nobody") is None and modules.get("nobody", 3) == 3
    with pytest.raises(KeyError):
        modules["nobody"]
    batch = {"a": {Columns.OBS: torch.zeros(2, 4)}, "b": {Columns.OBS: torch.zeros(3, 4)}}
    for forward in (modules.forward_inference, modules.forward_exploration, modules.forward_train):
        out = forward(batch)
        assert {key: len(each[Columns.ACTION_DIST_INPUTS]) for key, each in out.items()} == {"a": 2, "b": 3}
    assert set(modules.forward_inference({"a": batch["a"]})) == {"a"}


def test_modules_come_and_go() -> None:
    modules = several()
    modules.add_module("c", linear().build())
    assert set(modules.keys()) == {"a", "b", "c"}
    with pytest.raises(ValueError):
        modules.add_module("c", linear().build())
    modules.add_module("c", spec().build(), override=True)
    assert type(modules["c"]) is DefaultPPOTorchRLModule
    modules.remove_module("c")
    assert set(modules.keys()) == {"a", "b"}
    with pytest.raises((KeyError, ValueError)):
        modules.remove_module("c")
    ids = modules.foreach_module(lambda module_id, module, **kwargs: module_id)
    assert ids == ["a", "b"]


def test_states_of_several_modules(tmp_path: Any) -> None:
    modules = several()
    state = modules.get_state()
    assert set(state) == {"a", "b"} and set(modules.get_state(components="a")) == {"a"}
    assert set(modules.get_state(not_components="a")) == {"b"}
    other = several()
    other.set_state({"a": {name: value * 0 for name, value in state["a"].items()}})
    assert not other["a"].get_state()["layer.weight"].any()
    path = modules.save_to_path(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "a" / "module_state.pkl").is_file()
    again = MultiRLModule.from_checkpoint(path)
    assert set(again.keys()) == {"a", "b"}
    assert np.array_equal(again["a"].get_state()["layer.weight"], state["a"]["layer.weight"])
    single = RLModule.from_checkpoint(str(tmp_path / "saved" / "b"))
    assert type(single) is DefaultPPOTorchRLModule
    assert [name for name, _ in modules.get_checkpointable_components()] == ["a", "b"]


def test_a_spec_of_several() -> None:
    made = MultiRLModuleSpec(rl_module_specs={"a": linear()})
    made.add_modules({"b": spec()})
    assert set(made.rl_module_specs) == {"a", "b"} and "b" in made and made["a"].module_class is Linear
    made.remove_modules("b")
    assert set(made.rl_module_specs) == {"a"}
    assert made.multi_rl_module_class is MultiRLModule
    assert type(made.build(module_id="a")) is Linear


NESTED = gym.spaces.Dict(
    {
        "choices": gym.spaces.Tuple([gym.spaces.Discrete(2, start=1), gym.spaces.MultiBinary(3)]),
        "row": gym.spaces.Box(np.array([-1, 0], np.float32), np.array([3, 9], np.float32)),
        "several": gym.spaces.MultiDiscrete([2, 3]),
    }
)
#: How Ray writes a Box of two numbers between -1 and 1: changing it would break files that others have written.
BOX_AS_DICT = {
    "space": "box", "shape": [2], "dtype": "<f4",
    "low": "eJyb7BfqGxDJyFDGUK2eklqcXKRupaBuk2airqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RpGOpo6CrUKFAAuBoaG/SAMADXmHdc=",
    "high": "eJyb7BfqGxDJyFDGUK2eklqcXKRupaBuk2airqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RpGOpo6CrUKFAAuBoYGexAGADLmHNc=",
}  # fmt: skip


@pytest.mark.parametrize("space", [BOX, NESTED, None], ids=["box", "nested", "none"])
def test_a_spec_as_a_dict(space: Any) -> None:
    made = spec()
    made.observation_space = space
    plain = json.loads(json.dumps(made.to_dict()))
    assert (
        plain["module_class"]
        == "ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module.DefaultPPOTorchRLModule"
    )
    assert plain["catalog_class"] == "ray.rllib.algorithms.ppo.ppo_catalog.PPOCatalog"
    assert plain["action_space"] == {"space": "discrete", "n": 2, "start": 0}
    assert plain["model_config"] == {**SMALL, "vf_share_layers": False}
    again = RLModuleSpec.from_dict(made.to_dict())
    assert again == made and again.module_class is DefaultPPOTorchRLModule
    if space is BOX:
        assert set(again.build().get_state()) == set(made.build().get_state())


def test_a_space_written_by_ray() -> None:
    plain = {**spec().to_dict(), "observation_space": BOX_AS_DICT}
    space = RLModuleSpec.from_dict(plain).observation_space
    assert space == gym.spaces.Box(-1, 1, (2,), np.float32)


def test_a_spec_of_several_as_a_dict() -> None:
    made = MultiRLModuleSpec(rl_module_specs={"a": spec(), "b": spec(BOX)})
    plain = json.loads(json.dumps(made.to_dict()))
    assert plain["multi_rl_module_class"] == "ray.rllib.core.rl_module.multi_rl_module.MultiRLModule"
    assert set(plain["rl_module_specs"]) == {"a", "b"}
    again = MultiRLModuleSpec.from_dict(made.to_dict())
    assert again.rl_module_specs == made.rl_module_specs and again.inference_only is made.inference_only
    assert set(again.build().keys()) == {"a", "b"}


def test_a_spec_without_a_class_is_no_dict() -> None:
    with pytest.raises((ValueError, AttributeError)):
        RLModuleSpec(observation_space=BOX).to_dict()


LOGITS = torch.tensor([[0.3, -1.2, 0.5, 2.0], [0.0, 0.1, -0.7, 0.4]])
OTHER = torch.tensor([[0.1, 0.2, -0.3, 0.4], [1.0, -1.0, 0.5, 0.0]])
NORMAL = torch.distributions.Normal


def reference(kind: str, logits: Any) -> list[Any]:
    """Return torch's distributions, whose logs of probabilities add up."""
    if kind == "categorical":
        return [torch.distributions.Categorical(logits=logits)]
    if kind == "multi_categorical":
        return [torch.distributions.Categorical(logits=each) for each in logits.split([1, 3], -1)]
    mean, log_std = logits.chunk(2, -1)
    return [torch.distributions.Independent(NORMAL(mean, log_std.exp()), 1)]


KINDS = {
    "categorical": TorchCategorical,
    "gaussian": TorchDiagGaussian,
    "multi_categorical": TorchMultiCategorical.get_partial_dist_cls(space=None, input_lens=[1, 3]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_distributions_agree_with_those_of_torch(kind: str) -> None:
    made, other = KINDS[kind].from_logits(LOGITS), KINDS[kind].from_logits(OTHER)
    torch.manual_seed(0)
    action = made.sample()
    assert action.shape[0] == 2
    parts = action.unbind(-1) if kind == "multi_categorical" else [action]
    oracles, others = reference(kind, LOGITS), reference(kind, OTHER)
    logp = sum(oracle.log_prob(part) for oracle, part in zip(oracles, parts, strict=True))
    assert torch.allclose(made.logp(action), logp, atol=1e-5)
    assert torch.allclose(made.entropy(), sum(each.entropy() for each in oracles), atol=1e-5)
    kl = sum(torch.distributions.kl_divergence(a, b) for a, b in zip(oracles, others, strict=True))
    assert torch.allclose(made.kl(other), kl, atol=1e-5)


def test_deterministic_distributions() -> None:
    assert TorchCategorical.from_logits(LOGITS).to_deterministic().sample().tolist() == [3, 3]
    assert torch.equal(TorchDiagGaussian.from_logits(LOGITS).to_deterministic().sample(), LOGITS[:, :2])
    multi = KINDS["multi_categorical"].from_logits(LOGITS).to_deterministic().sample()
    assert multi.tolist() == [[0, 2], [0, 2]]
    assert torch.equal(TorchDeterministic(loc=LOGITS).sample(), LOGITS)


def test_squashed_gaussians_stay_within_their_bounds() -> None:
    made = TorchSquashedGaussian.from_logits(LOGITS, low=-2.0, high=3.0)
    torch.manual_seed(0)
    actions = torch.stack([made.rsample() for _ in range(50)])
    assert float(actions.min()) >= -2.0 and float(actions.max()) <= 3.0
    squashed = actions[0]
    raw = torch.atanh(((squashed + 2) / 5 * 2 - 1).clamp(-0.9999, 0.9999))
    normal = NORMAL(LOGITS[:, :2], LOGITS[:, 2:].exp())
    expected = (normal.log_prob(raw) - torch.log(1 - torch.tanh(raw) ** 2 + 1e-6)).sum(-1)
    assert torch.allclose(made.logp(squashed), expected, atol=0.05)


@pytest.mark.parametrize(
    ("kind", "space", "size"),
    [
        (TorchCategorical, gym.spaces.Discrete(5), 5),
        (TorchDiagGaussian, ARM, 6),
        (TorchDeterministic, ARM, 3),
        (TorchMultiCategorical, gym.spaces.MultiDiscrete([2, 3]), 5),
    ],
    ids=["categorical", "gaussian", "deterministic", "multi"],
)
def test_distributions_name_the_size_of_their_inputs(kind: Any, space: Any, size: int) -> None:
    assert int(kind.required_input_dim(space)) == size


def test_a_module_may_say_its_specs_and_read_its_arguments() -> None:
    class Older(Linear):
        @override(RLModule)
        def input_specs_train(self) -> list[str]:
            return ["obs", "actions"]

        @override(RLModule)
        def output_specs_inference(self) -> list[str]:
            return ["action_dist_inputs"]

        def setup(self) -> None:
            self.outputs = self.config.action_space.n
            super().setup()

    module = RLModuleSpec(
        module_class=Older,
        observation_space=BOX,
        action_space=gym.spaces.Discrete(2),
        model_config={"width": 5},
    ).build()
    assert module.outputs == 2 and module.config.model_config_dict["width"] == 5
    assert module.config.observation_space == BOX and module.input_specs_train() == ["obs", "actions"]


def test_catalogs_of_programs_ask_for_gaussians() -> None:
    for actions, gaussian in ((ARM, True), (gym.spaces.Discrete(2), False)):
        kind = PPOCatalog(BOX, actions, {}).get_action_dist_cls(framework="torch")
        assert _check_if_diag_gaussian(kind, "torch", no_error=True) is gaussian
    with pytest.raises((AssertionError, ValueError), match="free_log_std"):
        _check_if_diag_gaussian(kind, "torch")
