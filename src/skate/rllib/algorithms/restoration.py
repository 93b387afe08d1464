"""Algorithms from the folders of checkpoints, Skate's and Ray's."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Mapping
from typing import Any

from skate.rllib import checkpoint_folder, checkpoint_pickles
from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.utils.checkpoints import Checkpointable

logger = logging.getLogger(__name__)

#: Fields that Ray has to fill in itself: it has classes of its own in them, or they were no part of the new API stack.
_OF_RAY_ALONE = ("model", "sample_collector", "torch_compile_learner_what_to_compile")


def saved_fields(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the fields of a configuration as `config_from` and Ray read them."""
    fields = dict(vars(config), **{"class": type(config)})
    for name in ("algo_class", "_is_frozen", *_OF_RAY_ALONE):
        del fields[name]
    for name in ("callbacks_class", "stats_cls_lookup"):
        if not fields[name]:
            del fields[name]
    if config.model and isinstance(config._model_config, dict | None):
        fields["_model_config"] = {**config.model, **(config._model_config or {})}
    return fields


def config_from(kind: Any, saved: Mapping[str, Any]) -> AlgorithmConfig:
    """Return the configuration of a checkpoint.

    Fields that only Ray has, and values of Ray's classes that are not available here, are left at their defaults.
    """
    config: AlgorithmConfig = kind.get_default_config().copy(copy_frozen=False)
    left = {}
    for name, value in saved.items():
        if name not in config or not checkpoint_pickles.is_available(value):
            left[name] = value
        elif name == "policies" and not all(hasattr(each, "policy_class") for each in value.values()):
            config.multi_agent(policies=dict.fromkeys(value))
        elif name not in _OF_RAY_ALONE:
            config.update_from_dict({name: value})
    if left:
        logger.debug("the checkpoint's fields %s have no counterpart here", sorted(left))
    return config


def algorithm_from(cls: Any, path: Any, filesystem: Any, config: Any) -> Any:
    """Return a new algorithm from a checkpoint; see `Algorithm.from_checkpoint`."""
    with checkpoint_folder.reading(path, filesystem) as folder:
        kind, args, kwargs = checkpoint_folder.class_in(folder)
        if not (isinstance(kind, type) and issubclass(kind, cls)):
            raise ValueError(
                f"the checkpoint at {folder} is of a {getattr(kind, '__name__', kind)}, not of a {cls.__name__}; "
                f"use {getattr(kind, '__name__', kind)}.from_checkpoint"
            )
        saved = kwargs.get("config") or (args[0] if args else {})
        made_from = saved if isinstance(saved, AlgorithmConfig) else config_from(kind, saved)
        if isinstance(config, AlgorithmConfig):
            made_from = config
        elif config:
            made_from = made_from.copy(copy_frozen=False).update_from_dict(config)
        algorithm: Any = kind(config=made_from)
        algorithm.read_from(folder)
    return algorithm


def read_algorithm(algorithm: Checkpointable, folder: pathlib.Path) -> None:
    """Restore an algorithm from a folder."""
    Checkpointable.read_from(algorithm, folder)
