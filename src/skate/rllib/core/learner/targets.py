"""Target networks: slow copies of networks."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def make_target_network(main_net: Any) -> Any:
    """Return a copy of a network that gradients do not change."""
    target: nn.Module = copy.deepcopy(main_net)
    target.requires_grad_(False)
    return target


def parameters_of(network: nn.Module) -> list[Tensor]:
    """Return `list(network.parameters())`, whose generators take most of the time of an update of small networks."""
    if type(network).parameters is not nn.Module.parameters:
        return list(network.parameters())
    found: dict[int, Tensor] = {}

    def walk(layer: nn.Module) -> None:
        for parameter in layer._parameters.values():
            if parameter is not None:
                found[id(parameter)] = parameter
        for inner in layer._modules.values():
            if inner is not None:
                walk(inner)

    walk(network)
    return list(found.values())


def update_target_network(*, main_net: Any, target_net: Any, tau: float) -> None:
    """Move a target network towards the main one.

    Args:
        main_net: The main network.
        target_net: The target network.
        tau: Share of the main network in the new target; 1.0 makes them equal.
    """
    mains, targets = parameters_of(main_net), parameters_of(target_net)
    with torch.no_grad():
        if tau == 1.0:
            torch._foreach_copy_(targets, mains)
        elif targets:
            torch._foreach_lerp_(targets, mains, tau)
