"""The resources of a model's replica, a pure function of its config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.resources import Resources
from skate.serve.llm.configs import LLMConfig

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(frozen=True)
class Placement:
    """The bundles of a replica's placement group, with the replica in the first; None if it needs no group."""

    bundles: list[dict[str, float]] | None
    strategy: str | None


def workers(config: LLMConfig) -> int:
    """Return the number of the engine's workers; each has a GPU, or a share of the CPUs."""
    sizes = config.engine_kwargs
    return int(sizes.get("tensor_parallel_size", 1)) * int(sizes.get("pipeline_parallel_size", 1))


def device(config: LLMConfig) -> str | None:
    """Return "gpu", "cpu" or "tpu" if a config requests it explicitly, not only through its engine."""
    kind: str | None = (config.accelerator_config or {}).get("kind")
    if kind is not None:
        return kind
    options = config.deployment_config.get("ray_actor_options") or {}
    if _has_gpus(config) or config.accelerator_type or options.get("num_gpus"):
        return "gpu"
    return "cpu" if config.placement_group_config else None


def _has_gpus(config: LLMConfig) -> bool:
    given = config.placement_group_config or {}
    bundles = [*(given.get("bundles") or ()), given.get("bundle_per_worker") or {}]
    return any(isinstance(each, dict) and each.get("GPU") for each in bundles)


def placement(config: LLMConfig, on_gpus: bool) -> Placement:
    """Return the bundles of a replica: one for the actor itself, and one for each worker of the engine.

    On CPUs, a replica has a group only if the config gives one. The actor's own share is added to the first bundle,
    because it drives its workers and runs beside the first.
    The strategy is PACK by default, because tensor parallel workers communicate at each layer. Raises ValueError
    for an invalid placement_group_config.
    """
    if not on_gpus and (config.placement_group_config is None or _has_gpus(config)):
        return Placement(None, None)
    options = config.deployment_config.get("ray_actor_options") or {}
    actor = Resources.from_options(options, default_cpus=1)
    bundles, strategy = _given(config)
    kind = config.accelerator_type
    if kind is not None:
        for each in bundles:
            each.setdefault(f"accelerator_type:{kind}", 0.001)
    together = [Resources(bundles[0]) + actor, *map(Resources, bundles[1:])]
    return Placement([dict(each.without_zeros()) for each in together], strategy)


def _given(config: LLMConfig) -> tuple[list[dict[str, float]], str]:
    given = config.placement_group_config
    count = workers(config)
    if given is None:
        return [{"GPU": 1.0} for _ in range(count)], "PACK"
    unknown = set(given) - {"bundle_per_worker", "bundles", "strategy"}
    if unknown:
        raise ValueError(
            f"placement_group_config has unknown keys {', '.join(sorted(unknown))}; its keys are bundles or "
            "bundle_per_worker, and strategy"
        )
    one, several = given.get("bundle_per_worker"), given.get("bundles")
    if one is None and several is None:
        raise ValueError("placement_group_config must specify either 'bundle_per_worker' or 'bundles'")
    if one is not None and several is not None:
        raise ValueError("Cannot specify both 'bundle_per_worker' and 'bundles' in placement_group_config")
    bundles: list[Any] = [one] * count if several is None else list(several)
    strategy = given.get("strategy", "PACK")
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"strategy of placement_group_config must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
        )
    if len(bundles) < 1 or any(not isinstance(each, dict) for each in bundles):
        raise ValueError("bundles of placement_group_config must be a non-empty list of dicts of resources")
    return [{name: float(amount) for name, amount in each.items()} for each in bundles], strategy


def deployment_options(config: LLMConfig, on_gpus: bool) -> dict[str, Any]:
    """Return the options of serve.deployment for a model: its config's options and its resources."""
    options = {**DEFAULTS, **config.deployment_config}
    actor = dict(options.get("ray_actor_options") or {})
    if config.runtime_env:
        actor["runtime_env"] = {**(actor.get("runtime_env") or {}), **config.runtime_env}
    found = placement(config, on_gpus)
    if found.bundles is not None:
        options["placement_group_bundles"] = found.bundles
        options["placement_group_strategy"] = found.strategy
        first = found.bundles[0]
        # The actor uses its share of the first bundle, and the first worker uses the rest.
        actor.setdefault("num_cpus", min(1.0, first.get("CPU", 0.0)))
    elif not on_gpus and workers(config) > 1:
        actor.setdefault(
            "num_cpus", workers(config)
        )  # the engine's workers are processes of the replica's node
    if actor:
        options["ray_actor_options"] = actor
    if options.get("num_replicas") not in (None, "auto"):
        options.pop("autoscaling_config", None)
    return options


#: Default options. Serve does not limit ongoing requests, because the engine batches them.
DEFAULTS: dict[str, Any] = {
    "max_ongoing_requests": 1_000_000,
    "health_check_period_s": 10,
    "health_check_timeout_s": 10,
}


def deployment_name(model_id: str) -> str:
    """Convert a model's name to the name of a deployment."""
    return model_id.replace("/", "--").replace(".", "_")
