"""Experiment loggers under Ray's names: their arguments, and the errors for missing packages."""

from __future__ import annotations

import importlib
import importlib.util
import inspect

import pytest
from ray import train
from ray.train import RunConfig, ScalingConfig, UserCallback

try:  # see test_callbacks.py
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError:
    from ray.train.data_parallel_trainer import DataParallelTrainer


def missing(package: str) -> bool:
    return importlib.util.find_spec(package) is None


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        (
            "mlflow",
            "setup_mlflow",
            "config tracking_uri registry_uri experiment_id experiment_name tracking_token artifact_location run_name "
            "create_experiment_if_not_exists tags rank_zero_only",
        ),
        (
            "mlflow",
            "MLflowLoggerCallback",
            "tracking_uri registry_uri experiment_name tags tracking_token save_artifact log_params_on_trial_end",
        ),
        ("wandb", "setup_wandb", "config api_key api_key_file rank_zero_only kwargs"),
        (
            "wandb",
            "WandbLoggerCallback",
            "project group api_key_file api_key excludes log_config upload_checkpoints save_checkpoints upload_timeout "
            "video_kwargs image_kwargs kwargs",
        ),
        ("comet", "CometLoggerCallback", "online tags save_checkpoints experiment_kwargs"),
    ],
)
def test_trackers_take_what_ray_lets_them_take(module: str, name: str, parameters: str) -> None:
    found = getattr(importlib.import_module(f"ray.air.integrations.{module}"), name)
    assert list(inspect.signature(found).parameters) == parameters.split()


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [
        ("mlflow", "setup_mlflow", "mlflow"),
        ("wandb", "setup_wandb", "wandb"),
        ("wandb", "WandbLoggerCallback", "wandb"),
        ("comet", "CometLoggerCallback", "comet_ml"),
    ],
)
def test_a_missing_package_is_a_runtime_error_that_names_it(module: str, name: str, package: str) -> None:
    if not missing(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(RuntimeError, match=r"(?i)pip install .?comet.ml|pip install " + package):
        getattr(importlib.import_module(f"ray.air.integrations.{module}"), name)()


def test_mlflow_is_an_import_error_as_a_callback() -> None:
    if not missing("mlflow"):
        pytest.skip("mlflow is installed")
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    with pytest.raises(ImportError, match="mlflow"):
        MLflowLoggerCallback()


@pytest.mark.parametrize(
    "name", ["RunConfig", "ScalingConfig", "FailureConfig", "CheckpointConfig", "Result"]
)
def test_air_has_the_settings_of_runs(name: str) -> None:
    assert getattr(importlib.import_module("ray.air"), name).__name__ == name


@pytest.mark.parametrize("name", ["RunConfig", "ScalingConfig", "FailureConfig", "CheckpointConfig"])
def test_air_has_them_in_a_module_as_well(name: str) -> None:
    found = getattr(importlib.import_module("ray.air.config"), name)
    assert found is getattr(importlib.import_module("ray.air"), name)


@pytest.mark.chosen_difference("a logger is told of a run as of one trial", id="D-train-loggers")
@pytest.mark.usefixtures("cluster")
def test_a_logger_serves_a_run(tmp_path) -> None:
    from ray.air.loggers import CSVLoggerCallback

    logger = CSVLoggerCallback()
    assert isinstance(logger, UserCallback)
    DataParallelTrainer(
        lambda: train.report({"loss": 1}),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), callbacks=[logger]),
    ).fit()
    assert (tmp_path / "run" / "progress.csv").read_text().startswith("loss,training_iteration")


@pytest.mark.chosen_difference("the callback and the hook are named", id="D-train-callback-name")
@pytest.mark.usefixtures("cluster")
def test_the_callback_that_raises_is_named(tmp_path) -> None:
    class Fussy(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            raise LookupError("nothing is right")

    with pytest.raises(
        train.ControllerError, match=r"Fussy raised in after_report\(\): LookupError: nothing is right"
    ):
        DataParallelTrainer(
            lambda: train.report({"loss": 1}),
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name="run", storage_path=str(tmp_path), callbacks=[Fussy()]),
        ).fit()
