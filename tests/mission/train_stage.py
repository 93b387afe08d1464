"""Runs code blocks of the mission's documents that train, with tiny models and data of this machine in place of downloads.

    skate run train_stage.py GROUPS

GROUPS is JSON: for each group its name, the paths of its blocks and of their checks, which share one
namespace, and a name in `train_gaps.py` for the parts that a block omits. Groups that start a session
themselves come last. What a group prints follows a line with its name; an error ends the group and not the
program.

The documents ask for four and eight workers with a GPU each; here `ScalingConfig` makes two of them, on CPUs. Models of their
names lie in a cache of Hugging Face's own form, so that `from_pretrained` finds them.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import ray
import ray.data
import ray.train
import ray.train.torch
from train_gaps import GAPS
from train_models import keep_models

_init, _scaling, _run = ray.init, ray.train.ScalingConfig, ray.train.RunConfig
_torch = ray.train.torch.TorchConfig


@functools.wraps(_init)
def init(**given: Any) -> Any:
    return _init(**{"num_cpus": 4, **given, "preload": os.environ["STAGE_PRELOAD"].split(",")})


def ScalingConfig(num_workers: int = 1, use_gpu: bool = False, **given: Any) -> Any:
    """Two workers at most, and no GPUs."""
    resources = {name: 1 for name in given.pop("resources_per_worker", {}) if name != "GPU"}
    return _scaling(num_workers=min(num_workers, 2), resources_per_worker=resources or None, **given)


def TorchConfig(backend: str | None = None, **given: Any) -> Any:
    """Leave the choice of a GPU backend to the library."""
    return _torch(backend=None if backend == "nccl" else backend, **given)


def RunConfig(storage_path: str | None = None, **given: Any) -> Any:
    """Results stay in this program's folder."""
    return _run(storage_path=os.environ["RAY_STORAGE"], **given)


ray.init, ray.train.ScalingConfig, ray.train.RunConfig = init, ScalingConfig, RunConfig
ray.train.torch.TorchConfig = TorchConfig


def source(path: str, fill: str) -> str:
    """A block, with what it leaves out put in; each gap is there once."""
    text = Path(path).read_text()
    for gap, filling in GAPS[fill].items() if fill and Path(path).parent.name == "blocks" else ():
        assert text.count(gap) == 1, (path, gap)
        text = text.replace(gap, filling)
    return text


def perform(group: dict[str, Any]) -> None:
    """A group in a namespace of its own."""
    print(f"\n== {group['name']}", flush=True)
    started = time.perf_counter()
    os.environ["RAY_STORAGE"] = f"{os.environ['STAGE_RESULTS']}/{group['name']}"
    space: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(NAMES, space)
        for path in group["paths"]:
            exec(compile(source(path, group.get("fill", "")), path, "exec", dont_inherit=True), space)
    except Exception:  # whatever a block raises: the test that reads this says so
        print("== FAILED\n" + traceback.format_exc(), flush=True)
    print(f"took {time.perf_counter() - started:.1f} s", flush=True)


NAMES = compile(
    (Path(__file__).parent / "train_names.py").read_text(), "train_names.py", "exec", dont_inherit=True
)
groups = json.loads(sys.argv[1])
wanted = [each for each in os.environ["STAGE_MODELS"].split(",") if each]
keep_models(Path(os.environ["HF_HOME"]) / "hub", wanted)
ray.init()
for each in groups:
    if each.get("starts_itself"):
        ray.shutdown()
        os.environ["STAGE_PRELOAD"] = "torch"  # little is done in them
    perform(each)
ray.shutdown()
