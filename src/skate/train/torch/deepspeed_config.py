"""Completion of a DeepSpeed config. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_MICRO, _STEPS, _TOTAL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
_ADAM = ("adam", "adamw")


def completed(
    config: Mapping[str, Any], workers: int, on_cpu: bool, kind: str, own_optimizer: bool = False
) -> dict[str, Any]:
    """Return a copy of a config without "auto".

    Args:
        config: the config.
        workers: the number of workers that share a batch.
        on_cpu: True without GPUs. Adam is then torch's, because DeepSpeed's own takes minutes to compile at first use.
        kind: the type of the model's parameters, such as "bfloat16".
        own_optimizer: True if the program has an optimizer; without one, and with none in the config, it is AdamW.

    Raises:
        ValueError: the batch sizes contradict each other, or the workers do not support a setting.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"a DeepSpeed config must be a dict, not {type(config).__name__}")
    found = copy.deepcopy(dict(config))
    found.update(_sizes(found, workers))
    for name, of in (("bf16", "bfloat16"), ("fp16", "float16")):
        part = found.get(name)
        if isinstance(part, dict) and part.get("enabled") == "auto":
            part["enabled"] = kind == of
    found = dict(_without_auto(found))
    if on_cpu and found.get("fp16", {}).get("enabled"):
        raise ValueError(
            'these workers have no GPU, and DeepSpeed computes in fp16 on GPUs only: set "fp16": {"enabled": False} in '
            'its config, and "bf16": {"enabled": True} for half precision'
        )
    if "optimizer" not in found and not own_optimizer:
        found["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}}
    optimizer = found.get("optimizer")
    if on_cpu and optimizer and str(optimizer.get("type", "")).lower() in _ADAM:
        optimizer.setdefault("params", {}).setdefault("torch_adam", True)
        found.setdefault("zero_force_ds_cpu_optimizer", False)
    return found


def _sizes(config: Mapping[str, Any], workers: int) -> dict[str, int]:
    """Return the rows of a worker's pass, the passes per step, and the rows per step of all workers."""
    given = {name: config.get(name) for name in (_MICRO, _STEPS, _TOTAL)}
    known = {name: value for name, value in given.items() if value not in (None, "auto")}
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f'{name} must be an integer >= 1 or "auto", not {value!r}')
    micro, steps, total = (known.get(name) for name in (_MICRO, _STEPS, _TOTAL))
    if total is not None:
        if micro is None:
            micro = max(1, total // ((steps or 1) * workers))
        if steps is None:
            steps = max(1, total // (micro * workers))
    micro, steps = micro or 1, steps or 1
    if total is not None and total != micro * steps * workers:
        raise ValueError(
            f'{_TOTAL}={total} is not {_MICRO}={micro} times {_STEPS}={steps} times {workers} workers; set one of them to "auto"'
        )
    return {_MICRO: micro, _STEPS: steps, _TOTAL: micro * steps * workers}


def _without_auto(part: Any) -> Any:
    """Remove the remaining "auto" values, for DeepSpeed to decide."""
    if isinstance(part, dict):
        return {name: _without_auto(value) for name, value in part.items() if value != "auto"}
    return part
