"""Norms and bounds of gradients."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def global_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """Return the L2 norm of all gradients together."""
    present = [gradient for gradient in gradients if gradient is not None]
    if not present:
        return torch.tensor(0.0)
    return torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(present))))  # type: ignore[no-any-return]


def are_finite(gradients: Sequence[Tensor]) -> bool:
    """True if all elements are finite.

    Args:
        gradients: Tensors of one kind.
    """
    if _CHECK is not None and all(each.dtype is torch.float32 and each.is_cpu for each in gradients):
        # In one call for all; the scale of one leaves them as they are.
        found = torch.zeros(1)
        _CHECK(gradients, found, _ONE)
        return found.item() == 0.0
    return math.isfinite(global_norm(gradients).item())


#: Torch's check for its scaler of gradients; old versions have none for CPUs.
_CHECK: Any = getattr(torch, "_amp_foreach_non_finite_check_and_unscale_", None)
_ONE = torch.ones(1)


def clip_gradients(
    gradients: dict[Hashable, Any],
    *,
    grad_clip: float,
    grad_clip_by: str = "value",
    norm: Tensor | None = None,
) -> None:
    """Clip gradients in place.

    Args:
        gradients: Gradients by parameter.
        grad_clip: The bound.
        grad_clip_by: ``"value"`` bounds each element, ``"norm"`` the L2 norm of each tensor, ``"global_norm"`` that of
            all together.
        norm: The norm of all together, if it is known.

    Raises:
        ValueError: ``grad_clip_by`` is none of these.
    """
    present = [gradient for gradient in gradients.values() if gradient is not None]
    if grad_clip_by == "value":
        for gradient in present:
            gradient.clamp_(-grad_clip, grad_clip)
    elif grad_clip_by == "norm":
        for gradient in present:
            length = gradient.norm(2).nan_to_num(neginf=-10e8, posinf=10e8)
            gradient.mul_(torch.clamp(grad_clip / length.clamp_min(1e-12), max=1.0))
    elif grad_clip_by == "global_norm":
        total = global_norm(present) if norm is None else norm
        scale = torch.clamp(grad_clip / torch.clamp(total + 1e-6, min=grad_clip), max=1.0)
        torch._foreach_mul_(present, scale)
    else:
        raise ValueError(f'grad_clip_by={grad_clip_by!r}: use "value", "norm" or "global_norm"')
