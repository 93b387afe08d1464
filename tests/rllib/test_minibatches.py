"""Minibatches that are put together at once, and updates through plain layers: the bits of the slow ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import clipped_surrogate
from skate.rllib.core.learner import batches
from tests.rllib.test_ppo_learner import learner_of, spec_of, update


def batch_of(length: int) -> batches.Batch:
    rows = torch.arange(length)
    return {"obs": rows.reshape(-1, 1) * 1.5, "state_in": {"pair": (rows, -rows)}, "name": "one"}


def one_by_one(lengths: dict[str, int], sizes: dict[str, int], epochs: int, shuffle: bool) -> list[Any]:
    """The rows of each minibatch, as one reads it in the documentation of `minibatches`."""
    numbers = torch.Generator().manual_seed(4)
    rest: dict[str, list[int]] = {name: [] for name in lengths}
    found = []
    for _ in range(max(-(-lengths[name] * epochs // sizes[name]) for name in lengths)):
        rows = {}
        for name, length in lengths.items():
            while len(rest[name]) < sizes[name]:
                drawn = torch.randperm(length, generator=numbers) if shuffle else torch.arange(length)
                rest[name] += drawn.tolist()
            rows[name], rest[name] = rest[name][: sizes[name]], rest[name][sizes[name] :]
        found.append(rows)
    return found


@pytest.mark.parametrize("at_once", [1, 200, 4 << 20], ids=["alone", "some", "all"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [4, 5])
def test_minibatches_have_the_rows_of_their_places(
    size: int, shuffle: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_BYTES_AT_ONCE", at_once)
    lengths = {"left": 12, "right": 7}
    wanted = one_by_one(lengths, dict.fromkeys(lengths, size), 3, shuffle)
    given = {name: batch_of(length) for name, length in lengths.items()}
    found = list(
        batches.minibatches(
            given,
            num_epochs=3,
            minibatch_size=size,
            shuffle=shuffle,
            generator=torch.Generator().manual_seed(4),
        )
    )
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        for name, rows in theirs.items():
            part = mine[name]
            assert (part["obs"][:, 0] / 1.5).tolist() == rows and part["name"] == "one"
            assert [each.tolist() for each in part["state_in"]["pair"]] == [rows, [-row for row in rows]]


def test_the_surrogate_has_the_bits_and_the_gradient_of_a_minimum() -> None:
    numbers = torch.Generator().manual_seed(2)
    advantages = torch.randn(400, generator=numbers).round(decimals=1)  # with some zeros
    ratio = (torch.rand(400, generator=numbers) * 2.0).round(decimals=1)
    ratio[:4] = torch.tensor([0.8, 1.2, 1 - 0.2, 1 + 0.2])  # at the bounds
    weights = torch.randn(400, generator=numbers)
    free, derived = ratio.clone().requires_grad_(), ratio.clone().requires_grad_()
    mine = clipped_surrogate(advantages, free, 0.2)
    theirs = torch.minimum(advantages * derived, advantages * derived.clamp(1 - 0.2, 1 + 0.2))
    (mine * weights).sum().backward()
    (theirs * weights).sum().backward()
    assert torch.equal(mine, theirs) and torch.equal(free.grad, derived.grad)
    assert 0 < int((free.grad == 0).sum()) < 400


class Asked(DefaultPPOTorchRLModule):
    """A module of the user's, whose pass in training is asked for each minibatch."""

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return super()._forward_train(batch, **kwargs)


@pytest.mark.parametrize("shared", [False, True])
def test_an_update_through_plain_layers_has_the_bits_of_the_module(shared: bool) -> None:
    model = {"vf_share_layers": shared}
    learners = [
        learner_of(spec=spec_of(module_class=kind, **model)) for kind in (DefaultPPOTorchRLModule, Asked)
    ]
    modules = [learner.module["default_policy"] for learner in learners]
    assert [each._plain_passes() is not None for each in modules] == [True, False]
    for _ in range(2):
        for learner in learners:
            update(learner, 3)
    mine, theirs = (each.get_state() for each in modules)
    assert all((array == theirs[key]).all() for key, array in mine.items())


def test_hooks_see_the_calls_of_an_update() -> None:
    learner = learner_of()
    module = learner.module["default_policy"]
    seen: list[str] = []
    for name in ("vf", "pi"):
        getattr(module, name).net.mlp[-1].register_forward_hook(lambda *args, name=name: seen.append(name))
    update(learner, 3)
    assert set(seen) == {"vf", "pi"}
