"""Trainers as trainables: each trial is a run of Train, whose reports become the trial's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from skate.tune.configs import RunConfig, run_config_of
from skate.tune.integration.ray_train import TuneReportCallback
from skate.tune.placement import Counted
from skate.tune.trainable import session
from skate.tune.trainable.bound_parameters import BoundTrainable, Parameter

#: The attributes of a trainer that a trial may set.
_SETTABLE = ("train_loop_config", "scaling_config", "datasets", "run_config")


def is_trainer(trainable: Any) -> bool:
    """True for a trainer of ray.train."""
    return (
        hasattr(trainable, "fit")
        and hasattr(trainable, "scaling_config")
        and hasattr(trainable, "run_config")
    )


def trainer_run_config(trainer: Any) -> RunConfig:
    """Return the name and storage of a trainer's run config for the search; its other settings stay with the
    trainer."""
    found = run_config_of(trainer.run_config)
    return RunConfig(
        name=found.name,
        storage_path=found.storage_path,
        storage_filesystem=found.storage_filesystem,
        checkpoint_config=found.checkpoint_config,
    )


def trainable_of_trainer(trainer: Any) -> Any:
    """Return a function trainable that runs a trainer with attributes set by the configuration."""
    held = Parameter(trainer)

    def resources(config: dict[str, Any]) -> Counted:
        scaling = config.get("scaling_config") or trainer.scaling_config
        if isinstance(scaling, Mapping):
            scaling = type(trainer.scaling_config)(**scaling)
        return Counted([{}, dict(scaling.total_resources)])

    def run(config: dict[str, Any], trainer: Any) -> None:
        _configured(trainer, config).fit()

    run.__name__ = run.__qualname__ = type(trainer).__name__
    return BoundTrainable(run, {"trainer": held}, resources)


def _configured(trainer: Any, config: Mapping[str, Any]) -> Any:
    """Copy a trainer for one trial.

    Raises:
        ValueError: the configuration sets an attribute that a trainer lacks.
    """
    unknown = sorted(set(config) - set(_SETTABLE))
    if unknown:
        raise ValueError(
            f"the space of a trainer has {', '.join(map(repr, _SETTABLE))}; "
            f"{', '.join(map(repr, unknown))} is not among these; pass values for the training "
            "function in 'train_loop_config'"
        )
    found = copy.copy(trainer)
    given = config.get("train_loop_config")
    if given is not None:
        found.train_loop_config = {**(trainer.train_loop_config or {}), **given}
    scaling = config.get("scaling_config")
    if scaling is not None:
        found.scaling_config = (
            type(trainer.scaling_config)(**scaling) if isinstance(scaling, Mapping) else scaling
        )
    if config.get("datasets"):
        found.datasets = {**trainer.datasets, **config["datasets"]}
    spec = session.spec()
    if spec is None:
        return found
    run = copy.copy(trainer.run_config)
    run.storage_path, run.storage_filesystem = spec.folder.path, spec.folder.filesystem
    run.name = f"train-{spec.next_checkpoint:06d}"
    run.callbacks = [*(run.callbacks or ()), TuneReportCallback()]
    found.run_config = run
    # A resumed trial passes on its checkpoint; the run itself is new.
    found.resume_from_checkpoint = session.get_checkpoint() or trainer.resume_from_checkpoint
    return found
