"""The settings of a run as plain values, which its announcement has, in Ray's shape."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

FRAMEWORKS = frozenset({"torch", "jax", "tensorflow", "xgboost", "lightgbm"})
#: The most characters of what users pass: the config of the function, of the backend, and the runtime environment.
TEXT_MAX = 16_000
DEPTH_MAX = 5


def settings_of(run: Any) -> dict[str, object]:
    """Return the settings of a run."""
    run_config, scaling, backend = run.run_config, run.scaling, run.backend
    failures, checkpoints = run_config.failure_config, run_config.checkpoint_config
    environment = run_config.worker_runtime_env
    framework = next((word for word in type(backend).__module__.split(".") if word in FRAMEWORKS), None)
    # A user's own subclass of DataConfig need not have what the class keeps.
    splits = getattr(run.data_config, "_datasets_to_split", "all")
    return {
        "train_loop_config": _short(run.config) if isinstance(run.config, Mapping) else None,
        "backend_config": {
            "framework": framework,
            "config": _short(getattr(backend, "__dict__", {})),
        },
        "scaling_config": {
            "num_workers": scaling.num_workers,
            "use_gpu": bool(scaling.use_gpu),
            "resources_per_worker": scaling.resources_per_worker,
            "placement_strategy": scaling.placement_strategy,
            "accelerator_type": scaling.accelerator_type,
            "use_tpu": bool(scaling.use_tpu),
            "topology": scaling.topology,
            "bundle_label_selector": scaling.label_selector,
        },
        "datasets": sorted(map(str, run.datasets)),
        "data_config": {
            "datasets_to_split": splits if splits == "all" else list(splits),
            "execution_options": None,
            "data_execution_options": {
                "default": _execution(getattr(run.data_config, "_execution_options", None)),
                "per_dataset_execution_options": {},
            },
            "enable_shard_locality": bool(getattr(run.data_config, "_enable_shard_locality", True)),
        },
        "run_config": {
            "name": run.name,
            "failure_config": {
                "max_failures": failures.max_failures,
                "controller_failure_limit": failures.controller_failure_limit,
            },
            "worker_runtime_env": _short(environment if isinstance(environment, Mapping) else {}),
            "checkpoint_config": {
                "num_to_keep": checkpoints.num_to_keep,
                "checkpoint_score_attribute": checkpoints.checkpoint_score_attribute,
                "checkpoint_score_order": checkpoints.checkpoint_score_order,
            },
            "storage_path": str(run_config.storage_path or run.folder.path),
            "storage_filesystem": None
            if run_config.storage_filesystem is None
            else type(run_config.storage_filesystem).__name__,
        },
    }


def _execution(options: Any) -> dict[str, object]:
    """Return the options of datasets, the default ones if there are some for each dataset."""
    if isinstance(options, Mapping):
        options = None
    return {
        "resource_limits": _amounts(getattr(options, "resource_limits", None)),
        "exclude_resources": _amounts(getattr(options, "exclude_resources", None)),
        "preserve_order": bool(getattr(options, "preserve_order", False)),
        "actor_locality_enabled": bool(getattr(options, "actor_locality_enabled", True)),
        "verbose_progress": bool(getattr(options, "verbose_progress", True)),
    }


def _amounts(resources: Any) -> dict[str, object]:
    names = ("cpu", "gpu", "object_store_memory", "memory")
    found = {name: getattr(resources, name, None) for name in names}
    return {name: _plain(amount) for name, amount in found.items() if amount is not None}


def _short(value: Mapping[str, Any]) -> dict[str, object]:
    """Return what a user has passed as plain values; empty if it is long."""
    found = _plain(value)
    assert isinstance(found, dict)
    return found if len(json.dumps(found)) <= TEXT_MAX else {}


def _plain(value: object, depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping) and depth < DEPTH_MAX:
        return {str(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple) and depth < DEPTH_MAX:
        return [_plain(each, depth + 1) for each in value]
    return type(value).__name__
