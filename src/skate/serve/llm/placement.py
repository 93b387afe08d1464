"""The resources of a model's replica: a pure function of its config, testable without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.resources import Resources
from skate.serve.llm.configs import LLMConfig

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(frozen=True)
class Placement:
    """Bundles of a replica's placement group; the replica itself is in the first. None if it needs no group."""

    bundles: list[dict[str, float]] | None
    strategy: str | None


def workers(config: LLMConfig) -> int:
    """GPUs of a replica: one for each part of each layer group."""
    sizes = config.engine_kwargs
    return int(sizes.get("tensor_parallel_size", 1)) * int(sizes.get("pipeline_parallel_size", 1))


def asks_for_gpus(config: LLMConfig) -> bool:
    """True if a config asks for GPUs beyond choosing an engine that usually needs one."""
    given = config.placement_group_config or {}
    bundles = [*(given.get("bundles") or ()), given.get("bundle_per_worker") or {}]
    options = config.deployment_config.get("ray_actor_options") or {}
    return bool(
        config.accelerator_type
        or workers(config) > 1
        or any(each.get("GPU") for each in bundles)
        or options.get("num_gpus")
    )


def placement(config: LLMConfig, needs_gpu: bool) -> Placement:
    """Return the bundles of a replica: one for the actor itself, and one for each worker of the engine.

    The actor's own share is added to the first bundle, because it drives its workers and runs beside the first.
    One node is filled before the next (PACK): tensor parallel workers communicate at each layer. Raises
    ValueError.
    """
    if not needs_gpu:
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
            f"placement_group_config has unknown keys {', '.join(sorted(unknown))}; it takes bundles or bundle_per_worker, "
            "and strategy"
        )
    one, several = given.get("bundle_per_worker"), given.get("bundles")
    if (one is None) == (several is None):
        raise ValueError("placement_group_config needs exactly one of bundle_per_worker and bundles")
    bundles: list[Any] = [one] * count if several is None else list(several)
    strategy = given.get("strategy", "PACK")
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"strategy of placement_group_config must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
        )
    if len(bundles) < 1 or any(not isinstance(each, dict) for each in bundles):
        raise ValueError("bundles of placement_group_config is a list of dicts of resources, one or more")
    return [{name: float(amount) for name, amount in each.items()} for each in bundles], strategy


def deployment_options(config: LLMConfig, needs_gpu: bool) -> dict[str, Any]:
    """Return the options of serve.deployment for a model: those of its config, and the model's requirements."""
    options = {**DEFAULTS, **config.deployment_config}
    actor = dict(options.get("ray_actor_options") or {})
    if config.runtime_env:
        actor["runtime_env"] = {**(actor.get("runtime_env") or {}), **config.runtime_env}
    found = placement(config, needs_gpu)
    if found.bundles is not None:
        options["placement_group_bundles"] = found.bundles
        options["placement_group_strategy"] = found.strategy
        first = found.bundles[0]
        # The actor takes its own share of the first bundle; the rest of it is the first worker's.
        actor.setdefault("num_cpus", min(1.0, first.get("CPU", 0.0)))
    if actor:
        options["ray_actor_options"] = actor
    if options.get("num_replicas") not in (None, "auto"):
        options.pop("autoscaling_config", None)
    return options


#: An engine batches as many requests as there are, so that Serve has no reason to hold any back.
DEFAULTS: dict[str, Any] = {
    "max_ongoing_requests": 1_000_000,
    "health_check_period_s": 10,
    "health_check_timeout_s": 10,
}


def deployment_name(model_id: str) -> str:
    """A model's name as that of a deployment."""
    return model_id.replace("/", "--").replace(".", "_")
