"""A step on gradients that nothing but the configuration changes, without dicts of them by parameter."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from skate.rllib.core import ALL_MODULES
from skate.rllib.core.learner.torch.adam_steps import step_all
from skate.rllib.core.learner.torch.gradients import are_finite, clip_gradients, global_norm

#: What a learner of the user's may have in its own way; the general step calls all of it.
_METHODS = (
    "compute_gradients",
    "postprocess_gradients",
    "postprocess_gradients_for_module",
    "apply_gradients",
    "filter_param_dict_for_optimizer",
    "get_optimizers_for_module",
    "get_param_ref",
)


def leaves_gradients_alone(learner: Any, base: type) -> bool:
    """True if all methods between a loss and the step of the optimizers are those of a class.

    Args:
        learner: The learner.
        base: The class whose methods this module stands for.
    """
    kind, own = type(learner), vars(learner)
    return not any(getattr(kind, name) is not getattr(base, name) or name in own for name in _METHODS)


def can_step_plainly(learner: Any) -> bool:
    """True if the settings of no module ask for more than a step, or for norms of the gradients of an optimizer."""
    if learner.gradient_group is not None or ALL_MODULES in learner._module_optimizers:
        return False
    configs = [learner.config_of(module_id) for module_id in learner.module.keys()]  # noqa: SIM118
    return all(
        not getattr(config, "log_gradients", False)
        and (not config.grad_clip or config.grad_clip_by == "global_norm")
        for config in configs
    )


def plain_step(learner: Any, losses: dict[str, Any]) -> None:
    """Do what `compute_gradients`, `postprocess_gradients` and `apply_gradients` of `TorchLearner` do, with their numbers.

    Args:
        learner: A learner for which `leaves_gradients_alone` and `can_step_plainly` are True.
        losses: The losses by module id.
    """
    parameters = list(learner._params.values())
    for parameter in parameters:
        parameter.grad = None
    found = [loss for loss in losses.values() if isinstance(loss, Tensor)]
    total = sum(found[1:], start=found[0]) if found else None
    if total is None or total.grad_fn is None:
        return
    total.backward()  # type: ignore[no-untyped-call]
    present, unclipped, are_good = False, [], True
    for module_id in learner.module.keys():  # noqa: SIM118  a MultiRLModule is no dict
        clip = learner.config_of(module_id).grad_clip
        for _, optimizer in learner.get_optimizers_for_module(module_id):
            gradients = [
                gradient
                for parameter in learner._optimizer_parameters[optimizer]
                if (gradient := parameter.grad) is not None
            ]
            if not gradients:
                continue
            present = True
            if clip:
                # Gradients whose norm before they were clipped is finite are finite after it.
                are_good = math.isfinite(clipped(gradients, clip)) and are_good
            else:
                unclipped += gradients
    if not present:
        return
    if are_good and (not unclipped or are_finite(unclipped)):
        step_all(learner._named_optimizers.values())
    else:
        learner.apply_gradients({ref: parameter.grad for ref, parameter in learner._params.items()})


def clipped(gradients: list[Tensor], bound: float) -> float:
    """Scale gradients in place so that their norm is at most a bound, and return the norm that they had."""
    norm = global_norm(gradients)
    found = float(norm.item())
    # A smaller norm would multiply them by 1.
    if not found < 0.999 * bound:
        clip_gradients(dict(enumerate(gradients)), grad_clip=bound, grad_clip_by="global_norm", norm=norm)
    return found
