"""Steps of several Adam optimizers in one call of torch; the numbers are those of each optimizer's own `step()`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.optim import optimizer as torch_optimizer

#: Parameters, gradients, averages of gradients and of their squares, counts of steps, and tensors that these are parts of.
_Columns = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


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
        parameters, gradients, means, squares, steps, counts = columns
        if not parameters:
            continue
        lr, (beta1, beta2), weight_decay, eps = settings
        with torch.no_grad():
            torch._foreach_add_(counts, 1.0)
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
    found: _Columns = ([], [], [], [], [], [])
    for optimizer in optimizers:
        known = _known.get(optimizer)
        if known is None or not known.is_of(optimizer):
            known = _known[optimizer] = _Members(optimizer)
        part = known.columns()
        if part is None:
            return None
        for column, rows in zip(found, part, strict=True):
            column += rows
    return found


class _Members:
    """The parameters of an optimizer with their states, which take a slow look-up each.

    Args:
        optimizer: The optimizer, with one group of parameters.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._held = optimizer.state
        self._parameters = list(optimizer.param_groups[0]["params"])
        self._all = list(self._held.values())
        #: An empty dict for a parameter that has not been stepped.
        self._states = [self._held.get(each, {}) for each in self._parameters]
        #: The counts of all parameters in one tensor, and its elements, which are those of the states.
        self._counts: Tensor | None = None
        self._steps: list[Tensor] = []

    def is_of(self, optimizer: Optimizer) -> bool:
        """True if the optimizer has the same parameters and the same states as before."""
        held, parameters = optimizer.state, optimizer.param_groups[0]["params"]
        return (
            held is self._held
            and len(held) == len(self._all)
            and len(parameters) == len(self._parameters)
            and all(map(is_, held.values(), self._all))
            and all(map(is_, parameters, self._parameters))
        )

    def columns(self) -> _Columns | None:
        """Return the columns of the parameters that have a gradient; None if they need the optimizer's own `step()`."""
        gradients = [each.grad for each in self._parameters]
        members = [
            (parameter, gradient, state)
            for parameter, gradient, state in zip(self._parameters, gradients, self._states, strict=True)
            if gradient is not None
        ]
        kind, plain = torch.float32, torch.strided
        means: list[Tensor] = []
        squares: list[Tensor] = []
        steps: list[Tensor] = []
        for parameter, gradient, state in members:
            if not state or gradient.layout is not plain or not parameter.is_cpu:
                return None
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            # One call takes tensors of one kind.
            if not (parameter.dtype is gradient.dtype is mean.dtype is square.dtype is kind):
                return None
            means.append(mean)
            squares.append(square)
            steps.append(state["step"])
        counts = steps
        if len(steps) == len(self._states) and len(steps) > 1:
            counts = [self._counted(steps)]
            steps = self._steps
        return [each[0] for each in members], [each[1] for each in members], means, squares, steps, counts

    def _counted(self, steps: list[Tensor]) -> Tensor:
        """Return the tensor whose elements are the counts of all parameters, so that one addition is enough."""
        if self._counts is None or not all(map(is_, steps, self._steps)):
            self._counts = torch.stack(steps)
            self._steps = list(self._counts.unbind())
            for state, step in zip(self._states, self._steps, strict=True):
                state["step"] = step
        return self._counts


#: What was found of an optimizer; forgotten with it.
_known: WeakKeyDictionary[Optimizer, _Members] = WeakKeyDictionary()
