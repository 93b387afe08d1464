"""Networks of dense layers without what `nn.Module` does at each call, which takes longer than small layers compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules.module import _has_any_global_hook

from skate.rllib.core.models.torch.heads import TorchMLPHead
from skate.rllib.core.models.torch.mlp_encoder import TorchMLPEncoder
from skate.rllib.core.models.torch.primitives import HOOKS, TorchMLP, as_float

#: The parameters of a dense layer, or None; and the function of any other layer.
_Step = tuple[dict[str, Any] | None, Callable[[Tensor], Tensor]]


class DensePass:
    """A pass through networks one after the other; made by `dense_pass_of`.

    Args:
        networks: The networks.
        layers: All their layers, in order, with the dict that holds each and its key there.
        steps: What the layers do.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        layers: Sequence[tuple[dict[str, Any], str, nn.Module]],
        steps: Sequence[_Step],
    ) -> None:
        self._networks, self._layers, self._steps = list(networks), layers, steps
        self._calls: list[tuple[Callable[[Tensor], Tensor], Tensor | None, Tensor | None]] = []
        seen = [network.__dict__ for network in networks] + [layer.__dict__ for _, _, layer in layers]
        #: What `is_watched` looks at in each of them: it is looked at before many calls.
        self._hooks = [held[name] for held in seen for name in HOOKS]
        self._seen = seen

    def is_of(self, networks: Sequence[nn.Module]) -> bool:
        """True if this pass is through the given networks, and nothing in them was replaced or is watched by now."""
        if len(networks) != len(self._networks) or not all(map(is_, networks, self._networks)):
            return False
        if any(self._hooks) or _has_any_global_hook():  # type: ignore[no-untyped-call]
            return False
        for held in self._seen:
            if "forward" in held:
                return False
        for holder, key, layer in self._layers:
            if holder.get(key) is not layer:
                return False
        return True

    def begin(self) -> None:
        """Look up the weights for the calls without gradients from now on; they may change in place."""
        self._calls = [
            (call, None, None) if held is None else (call, held["weight"].t(), held["bias"])
            for held, call in self._steps
        ]

    def __call__(self, rows: Tensor) -> Tensor:
        """Return what the networks return for the rows, of which no gradient is wanted."""
        if rows.dtype is not torch.float32:
            rows = as_float(rows)
        if rows.dim() != 2:
            return self.with_gradients(rows)
        # What `linear` does for rows of numbers, without a transposed view of the weights in each call.
        for call, weight, bias in self._calls:
            if weight is None:
                rows = call(rows)
            else:
                rows = torch.mm(rows, weight) if bias is None else torch.addmm(bias, rows, weight)
        return rows

    def with_gradients(self, rows: Tensor) -> Tensor:
        """Return what the networks return for the rows, where gradients may be wanted."""
        if rows.dtype is not torch.float32:
            rows = as_float(rows)
        for held, call in self._steps:
            rows = call(rows) if held is None else linear(rows, held["weight"], held["bias"])
        return rows


class PlainCalls:
    """Calls of networks that are through passes where that is the same; copies of it know none."""

    def __init__(self) -> None:
        self._passes: dict[int, DensePass] = {}

    def __call__(self, network: nn.Module, rows: Any) -> Tensor | None:
        """Return what a network returns for rows; None if it has to be called itself.

        Args:
            network: The network.
            rows: The rows, also where the network takes them in a dict.
        """
        known = self._passes.get(id(network))
        if known is None or not known.is_of((network,)):
            made = dense_pass_of((network,))
            if made is None:
                return None
            known = self._passes[id(network)] = made
        return known.with_gradients(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return PlainCalls, ()


def dense_pass_of(networks: Sequence[nn.Module]) -> DensePass | None:
    """Return a pass through networks; None unless they are default ones of dense layers.

    Args:
        networks: An encoder and heads, each of which is given what the one before returns.
    """
    layers: list[tuple[dict[str, Any], str, nn.Module]] = []
    steps: list[_Step] = []
    for network in networks:
        if type(network) not in (TorchMLPEncoder, TorchMLPHead):
            return None
        net: Any = network.net
        if type(net) is not TorchMLP or type(net.mlp) is not nn.Sequential:
            return None
        layers += [(network._modules, "net", net), (net._modules, "mlp", net.mlp)]
        for key, layer in net.mlp._modules.items():
            if not type(layer).__module__.startswith("torch.nn.modules."):
                return None
            layers.append((net.mlp._modules, key, layer))
            steps.append(_step_of(layer))
        if isinstance(network, TorchMLPHead) and network.clip_log_std:
            steps.append((None, network.bounded))
    made = DensePass(networks, layers, steps)
    return made if made.is_of(networks) else None


def _step_of(layer: nn.Module) -> _Step:
    if type(layer) is nn.Linear:
        return layer._parameters, layer.forward
    if type(layer) is nn.Tanh:
        return None, torch.tanh
    return None, layer.forward
