"""Linear layers whose weights are stored in oneDNN's order, which saves up to half of the time of small batches."""

from __future__ import annotations

import logging
from typing import Any

import torch

_log = logging.getLogger("skate.llm")
#: oneDNN chooses the order of the weights for a number of rows. The order for 32 rows is as fast for other numbers.
_ROWS = 32


class PackedLinear(torch.nn.Linear):
    """A linear layer with packed weights. `weight` is empty and only has their dtype, for code that asks for it."""

    def __init__(self, plain: torch.nn.Linear) -> None:
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = plain.in_features, plain.out_features
        weight = plain.weight.detach()
        self.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)
        self.bias = (
            None if plain.bias is None else torch.nn.Parameter(plain.bias.detach(), requires_grad=False)
        )
        self._packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias."""
        return self.then(input, "none")

    def then(self, input: torch.Tensor, function: str) -> torch.Tensor:
        """Return the result behind a function of oneDNN, such as "swish"."""
        result: torch.Tensor = _unary(input, self._packed, self.bias, function, [], "")
        return result

    def combined(self, input: torch.Tensor, other: torch.Tensor, operation: str) -> torch.Tensor:
        """Return the result combined with a tensor of its shape: "add" or "mul"."""
        result: torch.Tensor = _binary(input, other, self._packed, self.bias, operation)
        return result


_unary: Any = None
_binary: Any = None


def can_pack(dtype: torch.dtype) -> bool:
    """Return True if torch has oneDNN's packed layers for a dtype on this CPU."""
    global _unary, _binary
    try:
        _unary = torch.ops.mkldnn._linear_pointwise.default
        _binary = torch.ops.mkldnn._linear_pointwise.binary
        if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
        if dtype == torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported():
            return False
        generator = torch.Generator().manual_seed(0)
        plain = torch.nn.Linear(16, 16, bias=True, dtype=dtype)
        with torch.inference_mode():
            x = torch.randn(3, 16, generator=generator).to(dtype)
            packed, wanted = PackedLinear(plain), plain(x)
            return (
                torch.allclose(packed(x), wanted, rtol=1e-2, atol=1e-2)
                and torch.allclose(packed.combined(x, x, "mul"), wanted * x, rtol=1e-2, atol=1e-2)
                and torch.allclose(
                    packed.then(x, "swish"), torch.nn.functional.silu(wanted), rtol=1e-2, atol=1e-2
                )
            )
    # Private operators of torch: any error means that this version does not have them as they are called here.
    except Exception as error:
        _log.info("weights are not packed: %s", error)
        return False


def pack(model: torch.nn.Module, dtype: torch.dtype) -> bool:
    """Replace a model's linear layers with packed ones, one at a time, so that few weights exist twice.

    Weights that a layer shares with an embedding are kept for it. Returns False, and changes nothing, if torch cannot
    pack weights of this dtype.
    """
    if not can_pack(dtype):
        return False
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(parent, name, PackedLinear(child))
    return True
