"""Resources of an algorithm as a trial of Tune."""

from __future__ import annotations

from typing import Any

from skate.tune.placement import PlacementGroupFactory


def request_of(config: Any) -> PlacementGroupFactory:
    """Return the bundles: the algorithm's own first, then one for each remote learner and runner.

    Args:
        config: an `AlgorithmConfig`.
    """
    main = {"CPU": float(config.num_cpus_for_main_process), **config.custom_resources_for_main_process}
    learner = _learner(config)
    if config.num_learners == 0:
        main["CPU"] = max(main["CPU"], learner["CPU"])
        if learner.get("GPU"):
            main["GPU"] = learner["GPU"]
    bundles = [main, *[dict(learner) for _ in range(config.num_learners)]]
    runner = {"CPU": float(config.num_cpus_per_env_runner), **config.custom_resources_per_env_runner}
    if config.num_gpus_per_env_runner:
        runner["GPU"] = float(config.num_gpus_per_env_runner)
    number = config.num_env_runners
    if config.evaluation_interval:
        number += config.evaluation_num_env_runners
    bundles += [dict(runner) for _ in range(number)]
    return PlacementGroupFactory(bundles, strategy=config.placement_strategy)


def _learner(config: Any) -> dict[str, float]:
    gpus = float(config.num_gpus_per_learner)
    cpus = config.num_cpus_per_learner
    found = {"CPU": (0.0 if gpus else 1.0) if cpus == "auto" else float(cpus)}
    if gpus:
        found["GPU"] = gpus
    return {**found, **config.custom_resources_per_learner}
