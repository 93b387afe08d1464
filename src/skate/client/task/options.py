"""Options of tasks, actors and methods.

Options are checked where they are written (`@ray.remote(...)`, `.options(...)`): an unknown name or a wrong
value raises ValueError, a wrong type TypeError. The result is a dict of the given options, with plain numbers.
An option set to None is kept, because it overrides the decorator's value.
"""

from __future__ import annotations

import os
from operator import index

from skate.client.task import option_values as check
from skate.core.resource.resources import UNIT, to_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from skate.client.task.option_values import Check

DEFAULT_MAX_RETRIES = 3


def default_max_retries() -> int:
    """Return max_retries of tasks that do not name it: of RAY_TASK_MAX_RETRIES, or 3. Raises ValueError if it is no number."""
    text = os.environ.get("RAY_TASK_MAX_RETRIES")
    if text is None:
        return DEFAULT_MAX_RETRIES
    try:
        return check.count_or_forever("RAY_TASK_MAX_RETRIES", int(text)) or 0
    except ValueError as error:
        raise ValueError(f"RAY_TASK_MAX_RETRIES must be -1, 0 or a positive number, not {text!r}") from error


_COMMON: dict[str, Check] = {
    "num_cpus": check.quantity,
    "num_gpus": check.quantity,
    "resources": check.resources,
    "memory": check.memory,
    "accelerator_type": check.text,
    "label_selector": check.label_selector,
    "fallback_strategy": check.fallback_strategy,
    "scheduling_strategy": check.scheduling_strategy,
    "placement_group": check.placement_group,
    "placement_group_bundle_index": check.bundle_index,
    "placement_group_capture_child_tasks": check.flag_or_none,
    "runtime_env": check.mapping,
    "name": check.text,
    "enable_task_events": check.flag,
    "_labels": check.mapping,
}

TASK_OPTIONS: dict[str, Check] = {
    **_COMMON,
    "num_returns": check.num_returns,
    "max_retries": check.count_or_forever,
    "retry_exceptions": check.retry_exceptions,
    "max_calls": check.count,
    "_generator_backpressure_num_objects": check.backpressure,
    "_num_objects_per_yield": check.positive,
    "object_store_memory": check.not_for_tasks,
}

ACTOR_OPTIONS: dict[str, Check] = {
    **_COMMON,
    "name": check.actor_name,
    "namespace": check.namespace,
    "lifetime": check.lifetime,
    "get_if_exists": check.flag,
    "max_restarts": check.count_or_forever,
    "max_task_retries": check.count_or_forever,
    "max_concurrency": check.positive,
    "concurrency_groups": check.concurrency_groups,
    "max_pending_calls": check.count_or_forever,
    "allow_out_of_order_execution": check.flag_or_none,
    "enable_tensor_transport": check.flag_or_none,
    "_actor_generator_backpressure_num_objects": check.backpressure,
    "object_store_memory": check.deprecated_store_memory,
}

METHOD_OPTIONS: dict[str, Check] = {
    "num_returns": check.num_returns,
    "concurrency_group": check.text,
    "max_task_retries": check.count_or_forever,
    "retry_exceptions": check.retry_exceptions,
    "_generator_backpressure_num_objects": check.backpressure,
    "_num_objects_per_yield": check.positive,
    "enable_task_events": check.flag,
    "tensor_transport": check.tensor_transport,
}

METHOD_CALL_OPTIONS: dict[str, Check] = {**METHOD_OPTIONS, "name": check.text}

_REMOTE_OPTIONS = {**ACTOR_OPTIONS, **TASK_OPTIONS}


class UnknownMethodOption(ValueError, AssertionError):
    """Raised for an unknown option of ``@ray.method``, for which Ray raises an AssertionError."""


# ---------------------------------------------------------------- tasks, actors, methods


def task_options(
    given: Mapping[str, Any],
    *,
    decorator: bool,
    base: Mapping[str, Any] | None = None,
    generator: bool | None = None,
) -> dict[str, Any]:
    """Check the options of a task, and return them merged over `base`, those of its decorator.

    `decorator` is True for options of ``@remote(...)``, False for those of ``.options(...)``. `generator` is True
    for a generator function, False for another, None if unknown. Raises ValueError and TypeError.
    """
    options = _checked(given, TASK_OPTIONS, "a task", ACTOR_OPTIONS, "actors")
    if not decorator and "max_calls" in options:
        raise ValueError(
            "Setting 'max_calls' is not supported in '.options()': max_calls belongs to the function, not to "
            "one call; set it in @ray.remote(max_calls=...)"
        )
    if generator is False:
        check.streams(options.get("num_returns"))
    merged = {**base, **options} if base else options
    _check_placement(merged)
    return merged


def actor_options(
    given: Mapping[str, Any], *, decorator: bool, base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Check the options of an actor, and return them merged over `base`, those of its decorator.

    `decorator` is True for options of ``@remote(...)``, False for those of ``.options(...)``. Raises ValueError
    and TypeError.
    """
    options = _checked(given, ACTOR_OPTIONS, "an actor", TASK_OPTIONS, "tasks")
    if not decorator and "concurrency_groups" in options:
        raise ValueError(
            "concurrency_groups belong to the class, not to one actor; set them in "
            "@ray.remote(concurrency_groups=...)"
        )
    merged = {**base, **options} if base else options
    if merged.get("get_if_exists") and not merged.get("name"):
        raise ValueError("The actor name must be specified to use `get_if_exists`: give name=... as well")
    _check_placement(merged)
    return merged


def method_options(
    given: Mapping[str, Any],
    *,
    decorator: bool,
    base: Mapping[str, Any] | None = None,
    generator: bool | None = None,
) -> dict[str, Any]:
    """Check the options of an actor's method, and return them merged over `base`, those of ``@method(...)``.

    `decorator` is True for options of ``@method(...)``, False for those of ``actor.method.options(...)``.
    Raises ValueError, for an unknown name in the decorator UnknownMethodOption, and TypeError.
    """
    allowed = METHOD_OPTIONS if decorator else METHOD_CALL_OPTIONS
    try:
        options = _checked(given, allowed, "an actor's method", _REMOTE_OPTIONS, "tasks and actors")
    except check.UnknownOption as error:
        raise (UnknownMethodOption if decorator else ValueError)(str(error)) from None
    if generator is False:
        check.streams(options.get("num_returns"))
    return {**base, **options} if base else options


def remote_usage() -> str:
    """Describe the usage of ``@remote``, for error messages."""
    return (
        "The @ray.remote decorator must be applied either with no arguments and no parentheses, or with options, to a function "
        f"or a class: @ray.remote or @ray.remote(num_returns=2). The options are: {', '.join(sorted(_public(_REMOTE_OPTIONS)))}"
    )


def _checked(
    given: Mapping[str, Any],
    allowed: Mapping[str, Check],
    kind: str,
    elsewhere: Mapping[str, Check],
    elsewhere_kind: str,
) -> dict[str, Any]:
    options = {}
    for name, value in given.items():
        rule = allowed.get(name)
        if rule is None:
            raise check.UnknownOption(_unknown(name, allowed, kind, elsewhere, elsewhere_kind))
        options[name] = rule(name, value)
    return options


def _public(names: Mapping[str, object]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _unknown(
    name: str, allowed: Mapping[str, Check], kind: str, elsewhere: Mapping[str, Check], elsewhere_kind: str
) -> str:
    # Costs 4 ms to import; only an error needs it.
    import difflib

    if name in elsewhere:
        hint = f" (it is one of {elsewhere_kind})"
    else:
        near = difflib.get_close_matches(str(name), allowed, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    valid = ", ".join(sorted(_public(allowed)))
    if not hint.endswith("?"):
        hint += "."
    of = "remote functions" if kind == "a task" else "actors"
    return f"Invalid option keyword {name} for {of}: {name!r} is not an option of {kind}{hint} The options are: {valid}"


def _check_placement(options: Mapping[str, Any]) -> None:
    group = options.get("placement_group", "default")
    if group not in ("default", None) and options.get("scheduling_strategy") is not None:
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option: "
            "placement_group and scheduling_strategy both determine where to run; keep "
            "scheduling_strategy=PlacementGroupSchedulingStrategy(...)"
        )


# ---------------------------------------------------------------- requested resources and placement


def resource_request(options: Mapping[str, Any], *, kind: str) -> dict[str, int]:
    """Return the resources of a running task or a living actor, in units of 1/10000, without zero entries.

    `kind` is "task" or "actor". A task takes 1 CPU by default. An actor takes nothing by default, and 1 CPU
    when it requests GPUs or custom resources without num_cpus. Raises ValueError for a fraction of several
    GPUs.
    """
    request: dict[str, int] = {}
    for name, amount in (options.get("resources") or {}).items():
        request[name] = to_units(amount, name)
    gpus = options.get("num_gpus")
    if gpus is not None:
        request["GPU"] = units = to_units(gpus, "num_gpus")
        if units > UNIT and units % UNIT:
            raise ValueError(
                f"GPU resource quantities >1 must be whole numbers: num_gpus={gpus}: a task or actor "
                f"uses a fraction of one GPU or several whole ones; request {units // UNIT} or "
                f"{units // UNIT + 1}"
            )
    accelerator = options.get("accelerator_type")
    if accelerator:
        request[f"accelerator_type:{accelerator}"] = to_units(0.001)
    cpus = options.get("num_cpus")
    if cpus is None:
        cpus = 1 if kind == "task" or request else 0
    request = {"CPU": to_units(cpus, "num_cpus"), **request}
    memory = options.get("memory")
    if memory:
        request["memory"] = index(memory) * UNIT
    return {name: units for name, units in request.items() if units}


def placement_request(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the resources that must be free on a node to place an actor: its own, and 1 CPU if it specifies
    neither CPUs, GPUs nor custom resources.
    """
    request = resource_request(options, kind="actor")
    names = ("num_cpus", "num_gpus", "resources", "accelerator_type")
    if all(options.get(name) in (None, {}) for name in names):
        request = {"CPU": UNIT, **request}
    return request


def placement_of(options: Mapping[str, Any]) -> tuple[Any, int, bool | None] | None:
    """Return the requested placement group, by either option, as (group, bundle index, capture children).

    Return None if no option names a group, so that the parent's group may be inherited. The group itself is None
    for ``placement_group=None``, which requests no group.
    """
    strategy = options.get("scheduling_strategy")
    if check.is_a(strategy, "PlacementGroupSchedulingStrategy"):
        group_index = strategy.placement_group_bundle_index  # type: ignore[union-attr]
        capture = strategy.placement_group_capture_child_tasks  # type: ignore[union-attr]
        return strategy.placement_group, group_index, capture  # type: ignore[union-attr]
    group = options.get("placement_group", "default")
    if group == "default":
        return None
    return (
        group,
        options.get("placement_group_bundle_index", -1),
        options.get("placement_group_capture_child_tasks"),
    )
