"""DeepSpeed as a strategy of `prepare_model`: completion of its config for the run, and support for loops
written for plain torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import distributed
from torch.optim.optimizer import register_optimizer_step_pre_hook

from skate.installed import missing
from skate.train.torch.deepspeed_config import completed

#: The trainer's config, in its workers.
_given: dict[str, Any] = {}


def remember(config: Mapping[str, Any]) -> None:
    """Make `prepare_model` use DeepSpeed in this process."""
    _given.clear()
    _given.update(config)


def remembered() -> dict[str, Any] | None:
    """Return the trainer's config, or None."""
    return dict(_given) or None


def engine_of(model: torch.nn.Module, kwargs: dict[str, Any], device: torch.device, workers: int) -> Any:
    """Wrap the model in a DeepSpeed engine.

    Args:
        model: the model.
        kwargs: arguments of `deepspeed.initialize`; `config` is a dict, the path of a JSON file, or by default
            the trainer's.
        device: the device of this worker.
        workers: the number of workers of the run.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
        RuntimeError: there is no process group.
        ValueError: the config is inconsistent, or requires a feature that this device does not support.
    """
    try:
        import deepspeed  # a second that few runs need
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "deepspeed":
            raise
        raise missing(
            "deepspeed", 'prepare_model(parallel_strategy="deepspeed")', "'skate[deepspeed]'"
        ) from error
    if not distributed.is_initialized():
        raise RuntimeError(
            "DeepSpeed needs a process group, but a run with num_workers=0 has none; use ScalingConfig(num_workers=1)"
        )
    given = dict(kwargs)
    config = given.pop("config", None) or remembered()
    if config is None:
        raise ValueError(
            'prepare_model(parallel_strategy="deepspeed") needs the config: parallel_strategy_kwargs={"config": {...}}, or '
            "TorchTrainer(deepspeed_config={...})"
        )
    if isinstance(config, (str, os.PathLike)):
        with open(config) as file:
            config = json.load(file)
    first = next(model.parameters(), None)
    kind = "" if first is None else str(first.dtype).removeprefix("torch.")
    whole = completed(config, workers, device.type == "cpu", kind, own_optimizer="optimizer" in given)
    given.setdefault("model_parameters", [each for each in model.parameters() if each.requires_grad])
    engine, *_ = deepspeed.initialize(model=model, config=whole, dist_init_required=False, **given)
    if "optimizer" not in config and "optimizer" not in given:
        _Steps(engine)
    return engine


class _Steps:
    """Drives an engine from a plain torch loop: `optimizer.step()` of an Adam over its parameters is a step
    of the engine.

    Each step uses the current settings of that optimizer, so learning rate schedules work too.
    """

    SETTINGS = ("lr", "betas", "eps", "weight_decay")

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.own = {id(each) for each in engine.module.parameters()}
        self.busy = False
        register_optimizer_step_pre_hook(self.instead)

    def instead(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Called before any optimizer's step; the loop's own step then finds no gradients and does nothing."""
        held = [each for group in optimizer.param_groups for each in group["params"]]
        if self.busy or not any(id(each) in self.own for each in held):
            return
        if not isinstance(optimizer, torch.optim.Adam) or len(optimizer.param_groups) != 1:
            raise TypeError(
                f"DeepSpeed steps with AdamW and takes its settings from an Adam or AdamW with one group of parameters, got "
                f"{type(optimizer).__name__} with {len(optimizer.param_groups)}; "
                'name another in the config: "optimizer": {"type": ...}'
            )
        settings = optimizer.param_groups[0]
        for group in self.engine.optimizer.param_groups:
            group.update({name: settings[name] for name in self.SETTINGS if name in group})
        self.busy = True
        try:
            self.engine.step()
        finally:
            self.busy = False
        for each in held:
            each.grad = None
