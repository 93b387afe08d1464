"""Parts for programs that build their own: decoders, shards, the config of a module, compiled modules, comparisons."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.nn import functional

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.core.learner.shards import (
    MiniBatchCyclicIterator,
    ShardBatchIterator,
    ShardEpisodesIterator,
    ShardObjectRefIterator,
)
from skate.rllib.core.models.configs import CNNTransposeHeadConfig, MLPEncoderConfig, RecurrentEncoderConfig
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from skate.rllib.core.rl_module.rl_module import RLModuleSpec
from skate.rllib.core.rl_module.torch.torch_compile_config import TorchCompileConfig
from skate.rllib.core.testing.torch.bc_module import DiscreteBCTorchModule
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from skate.rllib.scripts.checks import check
from skate.rllib.scripts.model_checker import ModelChecker


@pytest.mark.parametrize(("kernel", "stride", "cut"), [(4, 2, 1), (7, 3, 2), (5, 2, 1), (3, 1, 1)])
def test_transposed_convolutions_are_torchs_own_with_the_borders_cut(
    kernel: int, stride: int, cut: int
) -> None:
    config = CNNTransposeHeadConfig(
        input_dims=[5], initial_image_dims=[4, 3, 6], cnn_transpose_filter_specifiers=[[2, kernel, stride]]
    )
    head, rows = config.build(), torch.randn(3, 5)
    image = head.initial_dense(rows).reshape(3, 4, 3, 6).permute(0, 3, 1, 2)
    layer = head.cnn_transpose_net.cnn_transpose[-1]
    whole = functional.conv_transpose2d(image, layer.weight, layer.bias, stride=stride)
    expected = whole[..., cut : cut + 4 * stride, cut : cut + 3 * stride].permute(0, 2, 3, 1) + 0.5
    assert config.output_dims == expected.shape[1:] == (4 * stride, 3 * stride, 2)
    torch.testing.assert_close(head(rows), expected)


def test_a_decoder_has_activations_and_norms_between_its_layers_alone() -> None:
    head = CNNTransposeHeadConfig(
        input_dims=[5],
        cnn_transpose_use_layernorm=True,
        cnn_transpose_use_bias=False,
        cnn_transpose_activation="silu",
    ).build()
    kinds = [type(layer).__name__ for layer in head.cnn_transpose_net.cnn_transpose]
    layer = ["Stride2D", "ZeroPad2d", "ConvTranspose2d"]
    assert kinds == [*layer, "LayerNorm1D", "SiLU", *layer, "LayerNorm1D", "SiLU", *layer]
    assert [name for name in head.state_dict() if name.endswith("bias") and "layer_norm" not in name] == [
        "initial_dense.bias", "cnn_transpose_net.cnn_transpose.12.bias",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="length of an embedding"):
        CNNTransposeHeadConfig(input_dims=[4, 4, 3]).build()


def test_networks_of_one_config_are_compared() -> None:
    checker = ModelChecker(MLPEncoderConfig(input_dims=[3], hidden_layer_dims=[4], output_layer_dim=2))
    assert checker.add()["encoder_out"].shape == (1, 2)
    checker.check()
    checker.models["other"], checker.param_counts["other"] = None, (1, 0)
    with pytest.raises(AssertionError):
        checker.check()
    memory = ModelChecker(RecurrentEncoderConfig(input_dims=[3], hidden_dim=4))
    out = memory.add(state={"h": [1, 4], "c": [1, 4]})
    assert out["encoder_out"].shape == (1, 1, 4) and out["state_out"]["c"].shape == (1, 1, 4)
    check(np.array(["a", "b"]), ["a", "b"])
    with pytest.raises(AssertionError):
        check(np.array(["a", "b"]), ["a", "c"])


def test_a_frozen_config_makes_that_of_a_module_once() -> None:
    config = PPOConfig().rl_module(
        algorithm_config_overrides_per_module={"quick": PPOConfig.overrides(lr=0.5)}
    )
    assert config.get_config_for_module("quick").lr == 0.5 and config.get_config_for_module("other") is config
    config.training(gamma=0.5)
    assert config.get_config_for_module("quick").gamma == 0.5
    config.freeze()
    made = config.get_config_for_module("quick")
    assert config.get_config_for_module("quick") is made
    copied = config.copy(copy_frozen=False).training(gamma=0.25)
    assert copied.get_config_for_module("quick").gamma == 0.25 and config.to_dict() == config.copy().to_dict()
    with config.thawed():
        config.gamma = 0.75
    assert config.get_config_for_module("quick").gamma == 0.75


def test_specs_of_modules_have_their_older_name_too() -> None:
    specs = MultiRLModuleSpec(rl_module_specs={"a": RLModuleSpec()})
    specs.add_modules({"b": RLModuleSpec()})
    assert specs.module_specs is specs.rl_module_specs and set(specs.module_specs) == {"a", "b"}


def test_minibatches_go_round_until_the_longest_module_was_given() -> None:
    batch = MultiAgentBatch(
        {
            "long": SampleBatch({"obs": np.arange(10), "more": {"x": torch.arange(10)}}),
            "short": SampleBatch({"obs": np.arange(3)}),
        },
        10,
    )
    given = list(
        MiniBatchCyclicIterator(batch, minibatch_size=4, num_epochs=2, shuffle_batch_per_epoch=False)
    )
    assert [each["long"].count for each in given] == [each["short"].count for each in given] == [4] * 5
    rows = np.concatenate([each["long"]["obs"] for each in given])
    assert rows.tolist() == [*range(10)] * 2 and given[1]["short"]["obs"].tolist() == [1, 2, 0, 1]
    assert [each["long"]["more"]["x"].tolist() for each in given] == rows.reshape(5, 4).tolist()
    mixed = np.concatenate([each["long"]["obs"] for each in MiniBatchCyclicIterator(batch, minibatch_size=5)])
    assert sorted(mixed) == [*range(10)]
    with pytest.raises(ValueError, match="module 'none' has no rows"):
        MiniBatchCyclicIterator(MultiAgentBatch({"none": SampleBatch()}, 0), minibatch_size=1)
    parts = [each["long"]["obs"].tolist() for each in ShardBatchIterator(batch, 3)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(ShardObjectRefIterator([*"abcde"], 2)) == [["a", "b", "c"], ["d", "e"]]


def test_episodes_are_cut_as_seldom_as_can_be() -> None:
    lengths = [10, 21, 3, 4, 35, 41, 5, 15, 44]
    episodes = [
        SingleAgentEpisode(
            observations=[0.0] * (n + 1), actions=[0] * n, rewards=[1.0] * n, len_lookback_buffer=0
        )
        for n in lengths
    ]
    shards = [[len(each) for each in shard] for shard in ShardEpisodesIterator(episodes, 3)]
    assert shards == [[44, 10, 5], [41, 15, 3], [35, 21, 1, 3]]
    assert [sum(map(len, shard)) for shard in ShardEpisodesIterator(episodes, 4)] == [44, 44, 45, 45]


def test_a_module_compiles_its_forward_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def compiled(function: Any, **how: Any) -> Any:
        asked.append(how)
        return lambda batch: {**function(batch), "compiled": True}

    monkeypatch.setattr(torch, "compile", compiled)
    module = DiscreteBCTorchModule(
        observation_space=gym.spaces.Box(-1, 1, (4,)),
        action_space=gym.spaces.Discrete(2),
        model_config={"fcnet_hiddens": [8]},
    )
    module.compile(TorchCompileConfig(torch_dynamo_backend="eager", kwargs={"dynamic": True}))
    assert asked == [{"backend": "eager", "mode": None, "dynamic": True}] * 3
    rows = {"obs": torch.zeros(1, 4)}
    assert all(
        call(rows)["compiled"]
        for call in (module.forward_train, module.forward_inference, module.forward_exploration)
    )
