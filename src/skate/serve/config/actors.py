"""Validation of the actor options and placement groups of replicas."""

from __future__ import annotations

from typing import Any

from skate.serve.config.checked import nearest

#: The options of a deployment that apply to the actors of its replicas.
ACTOR_OPTIONS = (
    "ray_actor_options", "placement_group_bundles", "placement_group_strategy", "placement_group_bundle_label_selector",
    "max_replicas_per_node",
)  # fmt: skip
_NAMES = (
    "runtime_env", "num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "label_selector", "fallback_strategy",
)  # fmt: skip
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_PER_NODE_MAX = 100


def actor_options(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the actor options of replicas, updated with the given options.

    Raises TypeError or ValueError for invalid options or combinations.
    """
    merged = {**base, **{key: value for key, value in given.items() if key in ACTOR_OPTIONS}}
    options = merged.get("ray_actor_options")
    if options is None:
        options = {}
    _check_options(options)
    options = {**options, "num_cpus": 1 if options.get("num_cpus") is None else options["num_cpus"]}
    limit = merged.get("max_replicas_per_node")
    bundles = merged.get("placement_group_bundles")
    _check_limit(limit)
    for name in ("placement_group_strategy", "placement_group_bundle_label_selector"):
        if merged.get(name) is not None and bundles is None:
            raise ValueError(f"If `{name}` is provided, `placement_group_bundles` must also be provided.")
    if bundles is not None:
        _check_selectors(merged.get("placement_group_bundle_label_selector"), bundles)
        if limit is not None:
            raise ValueError(
                "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided. Remove one of them"
            )
        _check_bundles(bundles, options)
        strategy = merged.get("placement_group_strategy")
        if strategy is not None and strategy not in _STRATEGIES:
            raise ValueError(
                f"Invalid placement group strategy {strategy}. Supported strategies are: {', '.join(_STRATEGIES)}"
            )
    merged["ray_actor_options"] = options
    return merged


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        raise TypeError(
            f'Got invalid type "{type(options)}" for ray_actor_options. Expected a dictionary, such as {{"num_cpus": 2}}'
        )
    for key in options:
        if key not in _NAMES:
            raise ValueError(
                f"Specifying '{key}' in ray_actor_options is not allowed{nearest(str(key), _NAMES)} Allowed options: "
                f"{', '.join(_NAMES)}"
            )
    if options.keys() - {"runtime_env"}:
        import skate  # imported here because settings alone do not need all of Skate

        checker: Any = skate.remote(_Anything)
        checker.options(**{key: value for key, value in options.items() if value is not None})
    environment = options.get("runtime_env")
    if environment is not None and not isinstance(environment, dict):
        raise TypeError(
            f"The type of keyword 'runtime_env' must be a dict, but received type {type(environment)}: {environment!r:.60}"
        )


class _Anything:
    """A placeholder for the class of a replica, to check its options."""


def _check_selectors(selectors: Any, bundles: Any) -> None:
    if not isinstance(selectors, list) or not isinstance(bundles, list):
        return
    if len(selectors) not in (1, len(bundles)):
        raise ValueError(
            f"Invalid bundle label selector {selectors}. The length of `bundle_label_selector` should equal "
            "the length of `bundles`. "
            "The `placement_group_bundle_label_selector` list must contain either a single selector (to apply to all bundles) or "
            f"match the number of `placement_group_bundles`. Got {len(selectors)} selectors for {len(bundles)} bundles"
        )


def _check_limit(limit: Any) -> None:
    if limit is None:
        return
    expected = f"None or an integer in the range of [1, {_PER_NODE_MAX}]"
    if not isinstance(limit, int):
        raise TypeError(f"Get invalid type '{type(limit)}' for max_replicas_per_node. Expected {expected}")
    if not 1 <= limit <= _PER_NODE_MAX:
        raise ValueError(f"Invalid max_replicas_per_node {limit}. Valid values are {expected}")


def _check_bundles(bundles: Any, options: dict[str, Any]) -> None:
    if not isinstance(bundles, (list, tuple)):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError(
            'Bundles must be a non-empty list of resource dictionaries. For example: `[{"CPU": 1.0}, {"GPU": 1.0}]`. Got empty '
            "list instead."
        )
    for bundle in bundles:
        if not isinstance(bundle, dict) or not all(
            isinstance(key, str) and isinstance(value, (int, float)) for key, value in bundle.items()
        ):
            raise ValueError(
                f"Bundles must be a non-empty list of resource dictionaries. Got {bundle!r:.80} in the list"
            )
        if not any(bundle.values()):
            raise ValueError(
                f"Bundles cannot be an empty dictionary or resources with only 0 values. Bundles: {list(bundles)}"
            )
    first = bundles[0]
    needs = {"num_cpus": ("CPU", options["num_cpus"]), "num_gpus": ("GPU", options.get("num_gpus"))}
    needs |= {name: (name, amount) for name, amount in (options.get("resources") or {}).items()}
    for option, (name, amount) in needs.items():
        if (amount or 0) > first.get(name, 0):
            raise ValueError(
                "When using `placement_group_bundles`, the replica actor will be placed in the first bundle, so the resource "
                f"requirements for the actor must be a subset of the first bundle. `{option}` for the actor is {amount}, but the "
                f"bundle only has {first.get(name, 0)} `{name}` specified."
            )
