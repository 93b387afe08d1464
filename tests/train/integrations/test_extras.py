"""Importing Train imports none of its optional libraries; a missing one is named with its extra."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

LIBRARIES = (
    *("accelerate", "deepspeed", "jax", "keras", "lightgbm", "lightning", "pytorch_lightning"),
    *("sklearn", "tensorflow", "torch", "transformers", "xgboost"),
)
PARTS = {
    "huggingface.transformers": ("transformers", "prepare_trainer"),
    "jax": ("jax", "JaxTrainer"),
    "lightgbm": ("lightgbm", "RayTrainReportCallback"),
    "lightning": ("lightning", "RayDDPStrategy"),
    "tensorflow": ("tensorflow", "prepare_dataset_shard"),
    "torch": ("torch", "TorchTrainer"),
    "xgboost": ("xgboost", "XGBoostCheckpoint"),
}
# Names of Ray 2.60, by the part; those of keras are in a module of their own.
NAMES = {
    "huggingface.transformers": {"RayTrainReportCallback", "prepare_trainer"},
    "lightning": {
        *("RayDDPStrategy", "RayDeepSpeedStrategy", "RayFSDPStrategy", "RayLightningEnvironment"),
        *("RayTrainReportCallback", "prepare_trainer"),
    },
    "xgboost": {"RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"},
    "lightgbm": {
        *("LightGBMCheckpoint", "LightGBMConfig", "LightGBMTrainer", "RayTrainReportCallback"),
        *("get_network_params", "normalize_pandas_for_lightgbm"),
    },
    "tensorflow": {"TensorflowCheckpoint", "TensorflowConfig", "TensorflowTrainer", "prepare_dataset_shard"},
    "jax": {"JaxConfig", "JaxTrainer"},
}


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_importing_train_and_its_parts_brings_no_library() -> None:
    modules = ", ".join(f"skate.train.{part}" for part in PARTS)
    program = f"import sys, json, skate.train, {modules}; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(run(program))}
    assert not loaded & set(LIBRARIES)


def test_trainers_are_made_without_their_library() -> None:
    """A driver needs none: workers may be on machines that have it."""
    program = """
import sys
for name in {libraries}: sys.modules[name] = None
from skate.train.xgboost import XGBoostTrainer; from skate.train.lightgbm import LightGBMTrainer
from skate.train.jax import JaxTrainer; from skate.train.tensorflow import TensorflowTrainer
from skate.train.torch import TorchTrainer
for kind in (XGBoostTrainer, LightGBMTrainer, JaxTrainer, TensorflowTrainer, TorchTrainer): kind(print)
print("made")
"""
    assert run(program.format(libraries=LIBRARIES)).strip() == "made"


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"torch", "jax"}))
def test_what_is_missing_is_named(part: str) -> None:
    library, name = PARTS[part]
    program = f"""
import sys
sys.modules[{library!r}] = None
try:
    from skate.train.{part} import {name}
except ImportError as error:
    print(error)
"""
    output = run(program)
    assert f"ray.train.{part} needs {library}" in output
    assert "pip install 'skate[" in output


@pytest.mark.parametrize("part", sorted(NAMES))
def test_names(part: str) -> None:
    module = importlib.import_module(f"skate.train.{part}")
    assert set(module.__all__) == NAMES[part]
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018
