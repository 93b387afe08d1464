"""Copies of the weights of one module in another one of the same process, tensor by tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skate.rllib.core.rl_module.apis import InferenceOnlyAPI
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

#: The dict of a layer that holds a tensor, the tensor's key there, and the tensor.
Place = tuple[dict[str, Any], str, torch.Tensor]


class WeightCopy:
    """Copies parameters and buffers that inference needs to those of the same name in another module.

    Args:
        source: The module to copy from.
        target: The module to copy to; it may have fewer tensors.
    """

    def __init__(self, source: Any, target: Any) -> None:
        self.source, self.target = source, target
        self._places: list[Place] = []
        self._from: list[torch.Tensor] = []
        self._to: list[torch.Tensor] = []

    @staticmethod
    def can_copy(source: Any, target: Any) -> bool:
        """True if both modules have nothing in their states but plain tensors, and the source has all of the target's."""
        if not (has_plain_state(source) and has_plain_state(target)):
            return False
        theirs, ours = needed_places(source), places_of(target)
        if target.inference_only and not ours.keys() <= theirs.keys():
            return False
        return all(ours[name][2].shape == place[2].shape for name, place in theirs.items() if name in ours)

    def run(self) -> None:
        """Copy all tensors."""
        if not self._places or any(holder.get(key) is not held for holder, key, held in self._places):
            # The first time, or a layer has another tensor than before.
            theirs, ours = needed_places(self.source), places_of(self.target)
            pairs = [(place, ours[name]) for name, place in theirs.items() if name in ours]
            self._from, self._to = [pair[0][2] for pair in pairs], [pair[1][2] for pair in pairs]
            self._places = [place for pair in pairs for place in pair]
        if self._to:
            with torch.no_grad():
                torch._foreach_copy_(self._to, self._from)


def needed_places(module: Any) -> dict[str, Place]:
    """Return `places_of` without what only training needs, as ``get_state(inference_only=True)`` does."""
    left_out: tuple[str, ...] = ()
    if not module.inference_only and isinstance(module, InferenceOnlyAPI):
        left_out = tuple(module.get_non_inference_attributes())
    return {
        name: place
        for name, place in places_of(module).items()
        if not any(name == part or name.startswith(f"{part}.") for part in left_out)
    }


def has_plain_state(module: Any) -> bool:
    """True for modules whose state is made of their parameters and buffers alone, without code of their own."""
    kind = type(module)
    if not isinstance(module, TorchRLModule):
        return False
    if kind.get_state is not TorchRLModule.get_state or kind.set_state is not TorchRLModule.set_state:
        return False
    return all(is_plain_layer(layer) for layer in module.modules())


def is_plain_layer(layer: nn.Module) -> bool:
    """True if nothing of a layer's own takes part when its state is read or loaded."""
    kind, base = type(layer), nn.Module
    names = ("state_dict", "load_state_dict", "get_extra_state", "set_extra_state", "_save_to_state_dict")
    hooks = (
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )
    return all(getattr(kind, name) is getattr(base, name) for name in names) and not any(
        getattr(layer, name, None) for name in hooks
    )


def places_of(module: nn.Module) -> dict[str, Place]:
    """Return where each tensor of a module's state is, by its name in the state."""
    found: dict[str, Place] = {}
    for prefix, layer in module.named_modules(remove_duplicate=False):
        start = f"{prefix}." if prefix else ""
        for holder, left_out in (
            (layer._parameters, ()),
            (layer._buffers, layer._non_persistent_buffers_set),
        ):
            for key, tensor in holder.items():
                if tensor is not None and key not in left_out:
                    found[start + key] = (holder, key, tensor)
    return found
