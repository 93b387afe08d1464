"""Steps of several Adam optimizers in one call of torch; the numbers are those of each optimizer's own `step()`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.optim import optimizer as torch_optimizer

#: Parameters, gradients, averages of gradients and of their squares, counts of steps.
_Columns = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def step_all(optimizers: Iterable[Optimizer]) -> None:
    """Step optimizers in their order, neighbors of the same settings together.

    Small networks spend more time in the hooks and the grouping of `step()` than in its arithmetic.
    """
    for settings, group in groupby(optimizers, key=settings_of):
        members = list(group)
        columns = None if settings is None else columns_of(members)
        if settings is None or columns is None:
            for optimizer in members:
                optimizer.step()
            continue
        parameters, gradients, means, squares, steps = columns
        if not parameters:
            continue
        lr, (beta1, beta2), weight_decay, eps = settings
        with torch.no_grad():
            torch._foreach_add_(steps, 1.0)
            torch._fused_adam_(
                parameters,
                gradients,
                means,
                squares,
                [],
                steps,
                amsgrad=False,
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                weight_decay=weight_decay,
                eps=eps,
                maximize=False,
            )


def settings_of(optimizer: Optimizer) -> tuple[Any, ...] | None:
    """Return learning rate, betas, decay and epsilon; None if only the optimizer's own `step()` can be taken."""
    own = vars(optimizer)
    # Schedulers of torch and tests put a function of theirs in the place of the method.
    if (
        type(optimizer) is not Adam
        or "step" in own
        or "grad_scale" in own
        or len(optimizer.param_groups) != 1
    ):
        return None
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return None
    if torch_optimizer._global_optimizer_pre_hooks or torch_optimizer._global_optimizer_post_hooks:
        return None
    group = optimizer.param_groups[0]
    if not group["fused"] or type(group["lr"]) is not float or group["amsgrad"] or group["maximize"]:
        return None
    if group["capturable"] or group["differentiable"] or group["decoupled_weight_decay"]:
        return None
    return group["lr"], group["betas"], group["weight_decay"], group["eps"]


def columns_of(optimizers: Iterable[Optimizer]) -> _Columns | None:
    """Return what a step needs, without parameters that have no gradient; None before the first step of one."""
    parameters: list[Tensor] = []
    gradients: list[Tensor] = []
    means: list[Tensor] = []
    squares: list[Tensor] = []
    steps: list[Tensor] = []
    kinds: set[torch.dtype] = set()
    for optimizer in optimizers:
        states = optimizer.state
        for parameter in optimizer.param_groups[0]["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            state = states.get(parameter)
            if not state or gradient.layout is not torch.strided or parameter.device.type != "cpu":
                return None
            kinds |= {parameter.dtype, gradient.dtype, state["exp_avg"].dtype, state["exp_avg_sq"].dtype}
            parameters.append(parameter)
            gradients.append(gradient)
            means.append(state["exp_avg"])
            squares.append(state["exp_avg_sq"])
            steps.append(state["step"])
    # One call takes tensors of one kind.
    return (parameters, gradients, means, squares, steps) if kinds <= {torch.float32} else None
