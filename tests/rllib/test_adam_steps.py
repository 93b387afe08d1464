"""Steps of several Adam optimizers together: the same bits as `step()` of each, and their own `step()` where it does more."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from skate.rllib.core.learner.targets import parameters_of
from skate.rllib.core.learner.torch import adam_steps


def made(count: int = 3, **settings: Any) -> tuple[list[torch.Tensor], list[torch.optim.Adam]]:
    numbers = torch.Generator().manual_seed(7)
    shapes = [(5, 3), (7,), (1,)]
    parameters = [
        torch.randn(shapes[at % 3], generator=numbers, requires_grad=True) for at in range(2 * count)
    ]
    pairs = zip(parameters[::2], parameters[1::2], strict=True)
    chosen: dict[str, Any] = {"lr": 3e-3, "fused": True, **settings}
    return parameters, [torch.optim.Adam(list(pair), **chosen) for pair in pairs]


def fill(parameters: list[torch.Tensor], round_: int) -> None:
    numbers = torch.Generator().manual_seed(round_)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=numbers)


def state_of(optimizers: list[torch.optim.Adam]) -> list[torch.Tensor]:
    return [
        value
        for each in optimizers
        for inner in each.state_dict()["state"].values()
        for value in inner.values()
    ]


@pytest.mark.parametrize(
    "settings", [{}, {"eps": 1e-7, "weight_decay": 0.1}, {"amsgrad": True}, {"fused": None}], ids=str
)
def test_the_same_bits_as_separate_steps(settings: dict[str, Any]) -> None:
    mine, together = made(**settings)
    theirs, apart = made(**settings)
    together[1].param_groups[0]["lr"] = apart[1].param_groups[0]["lr"] = 1e-4
    for round_ in range(4):
        for parameters in (mine, theirs):
            fill(parameters, round_)
            if round_ == 2:
                parameters[3].grad = None  # a module without rows in this batch
        adam_steps.step_all(together)
        for optimizer in apart:
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(state_of(together), state_of(apart), strict=True))


def test_neighbors_of_equal_settings_step_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, optimizers = made()
    fill(parameters, 0)
    adam_steps.step_all(optimizers)  # makes their states
    calls: list[int] = []
    own = torch._fused_adam_
    monkeypatch.setattr(
        torch, "_fused_adam_", lambda *args, **kw: (calls.append(len(args[0])), own(*args, **kw))
    )
    adam_steps.step_all(optimizers)
    assert calls == [6]
    optimizers[1].param_groups[0]["lr"] = 0.5
    adam_steps.step_all(optimizers)
    assert calls == [6, 2, 2, 2]


def test_optimizers_that_do_more_take_their_own_step() -> None:
    parameters, optimizers = made()
    fill(parameters, 0)
    adam_steps.step_all(optimizers)
    seen: list[Any] = []
    optimizers[0].register_step_post_hook(lambda *args: seen.append("hook"))
    torch.optim.lr_scheduler.StepLR(optimizers[1], 1)
    assert [adam_steps.settings_of(each) is None for each in optimizers] == [True, True, False]
    assert adam_steps.settings_of(torch.optim.AdamW(parameters[:1], fused=True)) is None
    assert adam_steps.settings_of(torch.optim.SGD(parameters[:1], lr=0.1)) is None
    adam_steps.step_all(optimizers)
    assert seen == ["hook"]


def test_other_states_and_parameters_are_found() -> None:
    mine, together = made()
    theirs, apart = made()
    for round_ in range(5):
        for parameters, optimizers in ((mine, together), (theirs, apart)):
            fill(parameters, round_)
            if round_ == 2:  # a checkpoint is restored
                saved = copy.deepcopy(optimizers[0].state_dict())
                saved["state"][0]["exp_avg"] *= 2.0
                optimizers[0].load_state_dict(saved)
            if round_ == 3:  # a parameter begins anew, and another optimizer takes one over
                optimizers[1].state[parameters[2]] = {
                    name: torch.zeros_like(value)
                    for name, value in optimizers[1].state[parameters[2]].items()
                }
                optimizers[2].param_groups[0]["params"].append(parameters[1])
                optimizers[2].state[parameters[1]] = {
                    name: value.clone() for name, value in optimizers[0].state[parameters[1]].items()
                }
        adam_steps.step_all(together)
        for optimizer in apart:
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(state_of(together), state_of(apart), strict=True))


def test_parameters_are_those_of_torch() -> None:
    shared = torch.nn.Linear(2, 2)
    network = torch.nn.Sequential(
        shared, torch.nn.ReLU(), torch.nn.ModuleDict({"a": shared}), torch.nn.Linear(2, 1)
    )
    network.register_parameter("scale", torch.nn.Parameter(torch.ones(1)))
    network.register_parameter("none", None)
    assert [id(each) for each in parameters_of(network)] == [id(each) for each in network.parameters()]
