"""MLflow, Weights & Biases and Comet through small stand-ins: the calls that are made against their APIs."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

STAND_INS = Path(__file__).parent / "stand_ins"
SERVICES = ("mlflow", "wandb", "comet_ml")


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in SERVICES]:
        del sys.modules[name]


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    forget()
    monkeypatch.syspath_prepend(str(STAND_INS))
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS), prepend=":")
    for name in ("MLFLOW_STAND_IN", "WANDB_STAND_IN"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in (
        "WANDB_MODE",
        "WANDB_PROJECT_NAME",
        "WANDB_GROUP_NAME",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_EXPERIMENT_ID",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_API_KEY", "key")
    ray.init(num_cpus=2)
    yield tmp_path
    ray.shutdown()
    forget()


def calls(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def named(found: list[dict[str, Any]], call: str) -> list[dict[str, Any]]:
    return [each for each in found if each["call"] == call]


def fit(folder: Path, loop: Any, *callbacks: Any, workers: int = 0) -> train.Result:
    return DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=str(folder / "runs"), callbacks=list(callbacks)),
        train_loop_config={"net": {"layers": 2}},
    ).fit()


def loop(config: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "weights").write_text("1")
        train.report({"loss": 0.5, "kind": "text"})
        train.report({"loss": 0.25, "pid": 7}, Checkpoint.from_directory(folder))


def broken(config: Any) -> None:
    train.report({"loss": 0.5})
    raise ValueError("over")


def test_mlflow_gets_a_run_with_settings_and_metrics(services: Path) -> None:
    from skate.air.integrations.mlflow import MLflowLoggerCallback

    fit(
        services,
        loop,
        MLflowLoggerCallback("file:here", experiment_name="trials", tags={"by": "me"}, save_artifact=True),
    )
    found = calls(services / "MLFLOW_STAND_IN")
    assert named(found, "create_experiment") == [{"call": "create_experiment", "name": "trials"}]
    (run,) = named(found, "create_run")
    assert (run["name"], run["tags"], run["uri"]) == ("run", {"by": "me", "trial_name": "run"}, "file:here")
    assert [(each["key"], each["value"]) for each in named(found, "log_param")] == [("net/layers", 2)]
    losses = [(each["step"], each["value"]) for each in named(found, "log_metric") if each["key"] == "loss"]
    assert losses == [(1, 0.5), (2, 0.25)]
    assert not [each for each in named(found, "log_metric") if each["key"] == "kind"]
    assert named(found, "log_artifacts")[0]["folder"] == str(services / "runs" / "run")
    assert found[-1] == {"call": "set_terminated", "run": "run-1", "status": "FINISHED"}


def test_mlflow_is_told_of_a_failure(services: Path) -> None:
    from skate.air.integrations.mlflow import MLflowLoggerCallback

    with pytest.raises(train.WorkerGroupError):
        fit(services, broken, MLflowLoggerCallback(log_params_on_trial_end=True), workers=1)
    found = calls(services / "MLFLOW_STAND_IN")
    assert named(found, "create_experiment")[0]["name"] == "run"
    assert [each["call"] for each in found[-2:]] == ["log_param", "set_terminated"]
    assert found[-1]["status"] == "FAILED"


def logging_to_mlflow(config: Any) -> None:
    from skate.air.integrations.mlflow import setup_mlflow

    mlflow = setup_mlflow({"lr": 1}, experiment_name="mine", create_experiment_if_not_exists=True)
    mlflow.log_metric("rank", train.get_context().get_world_rank(), step=1)
    with (
        mlflow.start_run(nested=True)
        if train.get_context().get_world_rank()
        else tempfile.TemporaryDirectory()
    ):
        train.report({})


def test_setup_mlflow_logs_from_rank_zero_alone(services: Path) -> None:
    fit(services, logging_to_mlflow, workers=2)
    found = calls(services / "MLFLOW_STAND_IN")
    assert [each["call"] for each in found] == ["create_experiment", "start_run", "log_param", "log_metric"]
    assert found[1]["name"] == "mine"
    assert found[3]["value"] == 0


def test_setup_mlflow_wants_an_experiment_that_there_is(services: Path) -> None:
    from skate.air.integrations.mlflow import setup_mlflow

    with pytest.raises(ValueError, match="no experiment with name 'other'.*create_experiment_if_not_exists"):
        setup_mlflow(experiment_name="other")
    with pytest.raises(ValueError, match="the MLflow experiment is not set"):
        setup_mlflow()
    assert setup_mlflow(experiment_id="0").active_run() is not None


def test_wandb_gets_a_run_from_a_process_of_its_own(services: Path) -> None:
    from skate.air.integrations.wandb import WandbLoggerCallback

    fit(
        services,
        loop,
        WandbLoggerCallback("project", upload_checkpoints=True, excludes=["timestamp"], notes="hello"),
    )
    found = calls(services / "WANDB_STAND_IN")
    (init,) = named(found, "init")
    given = init["given"]
    assert (given["project"], given["group"], given["name"], given["notes"]) == (
        "project",
        "run",
        "run",
        "hello",
    )
    assert given["config"] == {"net": {"layers": 2}}
    logs = named(found, "log")
    assert [(each["step"], each["metrics"]["loss"]) for each in logs] == [(1, 0.5), (2, 0.25)]
    assert set(logs[0]["metrics"]) == {"loss", "training_iteration", "time_total_s"}
    assert named(found, "config")[0]["values"] == {"pid": 7}
    (artifact,) = named(found, "artifact")
    assert (artifact["name"], artifact["kind"]) == ("checkpoint_run", "model")
    assert found[-1]["call"] == "finish"
    assert found[-1]["exit_code"] == 0
    assert len({each["pid"] for each in found}) == 1


def test_wandb_is_told_of_a_failure(services: Path) -> None:
    from skate.air.integrations.wandb import WandbLoggerCallback

    with pytest.raises(train.WorkerGroupError):
        fit(services, broken, WandbLoggerCallback("project"), workers=1)
    assert calls(services / "WANDB_STAND_IN")[-1]["exit_code"] == 1


def test_what_wandb_raises_ends_the_run_by_name(services: Path) -> None:
    from skate.air.integrations.wandb import WandbLoggerCallback

    def exploding(config: Any) -> None:
        train.report({"explode": 1})

    with pytest.raises(train.ControllerError, match="(?s)WandbLoggerCallback raised.*the service is gone"):
        fit(services, exploding, WandbLoggerCallback("project"))


def test_wandb_wants_a_project_and_a_key(services: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skate.air.integrations.wandb import WandbLoggerCallback, setup_wandb

    with pytest.raises(train.ControllerError, match="the W&B project is not set"):
        fit(services, loop, WandbLoggerCallback())
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(ValueError, match="wandb login"):
        setup_wandb()
    with pytest.raises(ValueError, match="both api_key and api_key_file"):
        setup_wandb(api_key="a", api_key_file="b")
    monkeypatch.setenv("WANDB_MODE", "offline")
    setup_wandb(project="mine")
    assert calls(services / "WANDB_STAND_IN")[-1]["given"]["project"] == "mine"


def logging_to_wandb(config: Any) -> None:
    from skate.air.integrations.wandb import setup_wandb

    run = setup_wandb(config, project="mine")
    if train.get_context().get_world_rank() == 0:
        run.log({"loss": 1}, step=1)
    train.report({})


def test_setup_wandb_logs_from_rank_zero_alone(services: Path) -> None:
    fit(services, logging_to_wandb, workers=2)
    inits = [each["given"] for each in named(calls(services / "WANDB_STAND_IN"), "init")]
    assert sorted(inits, key=len)[0] == {"mode": "disabled"}
    assert {given.get("group") for given in inits} == {None, "run"}


def test_comet_gets_an_experiment(services: Path) -> None:
    from skate.air.integrations.comet import CometLoggerCallback

    fit(
        services,
        loop,
        CometLoggerCallback(online=False, tags=["a"], save_checkpoints=True, project_name="mine"),
    )
    made, *rest = importlib.import_module("comet_ml").calls
    assert made[1] == "OfflineExperiment"
    assert made[2]["project_name"] == "mine"
    assert made[2]["auto_output_logging"] is False
    assert ("set_name", "run") in rest
    assert ("log_parameters", {"net/layers": 2}) in rest
    metrics = [each for each in rest if each[0] == "log_metrics"]
    assert [(each[1]["loss"], each[2]) for each in metrics] == [(0.5, 1), (0.25, 2)]
    assert ("log_system_info", "pid", 7) in rest
    assert [each[1:3] for each in rest if each[0] == "log_artifact"] == [("checkpoint_run", "model")]
    assert rest[-1] == ("end",)


@pytest.mark.parametrize(
    ("module", "make", "package"),
    [
        ("mlflow", "MLflowLoggerCallback", "mlflow"),
        ("mlflow", "setup_mlflow", "mlflow"),
        ("wandb", "WandbLoggerCallback", "wandb"),
        ("wandb", "setup_wandb", "wandb"),
        ("comet", "CometLoggerCallback", "comet-ml"),
    ],
)
def test_a_missing_package_is_asked_for_by_name(
    module: str, make: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SERVICES:
        monkeypatch.setitem(sys.modules, name, None)
    home = importlib.import_module(f"skate.air.integrations.{module}")
    with pytest.raises(ImportError, match=f"{make} needs .*pip install {package}") as caught:
        getattr(home, make)()
    assert isinstance(caught.value, RuntimeError), "which is what programs made for Ray catch"
