"""Target networks: slow copies of networks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
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
    move_tensors(parameters_of(main_net), parameters_of(target_net), tau)


def move_tensors(mains: list[Tensor], targets: list[Tensor], tau: float) -> None:
    """Move tensors, in place, by a share of the way to others; 1.0 makes them equal."""
    if not targets:
        return
    with torch.no_grad():
        if tau == 1.0:
            torch._foreach_copy_(targets, mains)
        else:
            torch._foreach_lerp_(targets, mains, tau)


class Parameters:
    """The parameters of some networks, which are looked up again only if a layer has others than before."""

    def __init__(self) -> None:
        self._networks: tuple[nn.Module, ...] = ()
        #: The dict of a layer that holds a parameter, its key there, and the parameter.
        self._places: list[tuple[dict[str, Any], str, Tensor]] = []
        self._found: list[Tensor] = []

    def of(self, networks: Sequence[nn.Module]) -> list[Tensor]:
        """Return the parameters of networks, one network after the other.

        Args:
            networks: The networks; asking for the same ones again takes a small part of the time.
        """
        if not self._are_known(networks):
            self._found = [each for network in networks for each in parameters_of(network)]
            # Networks with a method of their own are asked each time.
            are_plain = all(type(network).parameters is nn.Module.parameters for network in networks)
            self._networks = tuple(networks) if are_plain else ()
            self._places = [
                (layer._parameters, key, parameter)
                for network in networks
                for layer in network.modules()
                for key, parameter in layer._parameters.items()
                if parameter is not None
            ]
        return self._found

    def _are_known(self, networks: Sequence[nn.Module]) -> bool:
        known = self._networks
        if not known or len(known) != len(networks):
            return False
        if any(mine is not theirs for mine, theirs in zip(known, networks, strict=True)):
            return False
        return all(holder.get(key) is held for holder, key, held in self._places)


class TargetNetworks:
    """Moves all target networks of a module at once."""

    def __init__(self) -> None:
        self._mains, self._targets = Parameters(), Parameters()

    def move(self, pairs: Sequence[tuple[Any, Any]], tau: float) -> None:
        """Do what `update_target_network` does for each pair of a main and a target network."""
        mains = self._mains.of([main for main, _ in pairs])
        move_tensors(mains, self._targets.of([target for _, target in pairs]), tau)
