"""Code inside trials: trainers, datasets, tasks, and parts of GPUs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train, tune
from skate.train.data_parallel_trainer import DataParallelTrainer


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=4, num_gpus=2)
    yield
    skate.shutdown()


pytestmark = pytest.mark.usefixtures("session")


def loop(config: dict[str, Any]) -> None:
    first = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            first = int(Path(folder, "step").read_text()) + 1
    for step in range(first, config.get("steps", 3)):
        with tempfile.TemporaryDirectory() as folder:
            if train.get_context().get_world_rank() == 0:
                Path(folder, "step").write_text(str(step))
            world = train.get_context().get_world_size()
            train.report(
                {"score": config["lr"] * step, "world": world, "step": step, "base": config.get("base")},
                checkpoint=train.Checkpoint.from_directory(folder),
            )


def fit(trainable: Any, tmp_path: Path, space: Any, run: Any = None, **given: Any) -> tune.ResultGrid:
    run_config = tune.RunConfig(name="search", storage_path=str(tmp_path), verbose=0, **(run or {}))
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**given), run_config=run_config
    ).fit()


def test_a_trainer(tmp_path: Path) -> None:
    trainer = DataParallelTrainer(
        loop, train_loop_config={"base": 7}, scaling_config=train.ScalingConfig(num_workers=2)
    )
    space = {"train_loop_config": {"lr": tune.grid_search([1, 2])}}
    results = fit(trainer, tmp_path, space, metric="score", mode="max")
    assert results.errors == []
    best = results.get_best_result()
    assert best.config == {"train_loop_config": {"lr": 2}}
    assert best.metrics["score"] == 4
    assert best.metrics["world"] == 2
    assert best.metrics["base"] == 7, "what the trainer had and the space has not stays"
    assert best.metrics["training_iteration"] == 3
    with best.checkpoint.as_directory() as folder:
        assert Path(folder, "step").read_text() == "2"
    assert trainer.train_loop_config == {"base": 7}


def test_a_trainer_s_scaling_is_searched(tmp_path: Path) -> None:
    trainer = DataParallelTrainer(loop, train_loop_config={"lr": 1})
    space = {"scaling_config": tune.grid_search([train.ScalingConfig(num_workers=n) for n in (1, 3)])}
    results = fit(trainer, tmp_path, space)
    assert [result.metrics["world"] for result in results] == [1, 3]


def test_a_trainer_is_ended_by_a_scheduler(tmp_path: Path) -> None:
    trainer = DataParallelTrainer(loop, train_loop_config={"lr": 1, "steps": 50})
    [result] = fit(trainer, tmp_path, {}, run={"stop": {"training_iteration": 2}})
    assert result.metrics["training_iteration"] == 2


def test_a_space_that_a_trainer_has_no_place_for(tmp_path: Path) -> None:
    [result] = fit(DataParallelTrainer(loop), tmp_path, {"lr": 1})
    assert "pass values for the training function in 'train_loop_config'" in str(result.error)


def test_a_trainer_within_a_function(tmp_path: Path) -> None:
    from skate.tune.integration.ray_train import TuneReportCallback

    def outer(config: dict[str, Any]) -> None:
        name = tune.get_context().get_trial_id()
        DataParallelTrainer(
            loop,
            train_loop_config={"lr": config["lr"]},
            run_config=train.RunConfig(
                name=name, storage_path=config["storage"], callbacks=[TuneReportCallback()]
            ),
        ).fit()

    space = {"lr": tune.grid_search([1, 5]), "storage": str(tmp_path / "train")}
    results = fit(outer, tmp_path, space, metric="score", mode="max")
    assert results.errors == []
    assert results.get_best_result().metrics["score"] == 10
    assert results.get_best_result().checkpoint is not None


def test_a_dataset_within_a_function(tmp_path: Path) -> None:
    def outer(config: dict[str, Any]) -> dict[str, Any]:
        from skate import data

        return {"total": data.range(100).map(lambda row: {"id": row["id"] * config["by"]}).sum("id")}

    results = fit(outer, tmp_path, {"by": tune.grid_search([1, 2])})
    assert [result.metrics["total"] for result in results] == [4950, 9900]


def test_parts_of_gpus(tmp_path: Path) -> None:
    def seeing(config: dict[str, Any]) -> dict[str, Any]:
        return {"gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")}

    results = fit(
        tune.with_resources(seeing, {"cpu": 0, "gpu": 0.5}), tmp_path, {"x": tune.grid_search([*range(6)])}
    )
    assert results.errors == []
    assert all(result.metrics["gpus"] in ("0", "1") for result in results)


def test_what_a_trial_prints_goes_to_its_folder(tmp_path: Path) -> None:
    def talking(config: dict[str, Any]) -> dict[str, Any]:
        print("said this")
        logging.getLogger("ray").info("logged this")
        return {"x": 1}

    [result] = fit(talking, tmp_path, {}, run={"log_to_file": True})
    assert Path(result.path, "stdout").read_text() == "said this\n"
    assert "logged this" in Path(result.path, "stderr").read_text()


def test_trials_that_share_a_process_have_their_own_output_and_folder(tmp_path: Path) -> None:
    def talking(config: dict[str, Any]) -> dict[str, Any]:
        print(f"said by {config['x']}", end="")
        Path("artifact").write_text(str(config["x"]))
        return {"process": os.getpid()}

    space = {"x": tune.grid_search([1, 2, 3])}
    results = fit(
        talking, tmp_path, space, run={"log_to_file": True}, reuse_actors=True, max_concurrent_trials=1
    )
    assert len({result.metrics["process"] for result in results}) == 1
    for number, result in enumerate(results, 1):
        assert Path(result.path, "stdout").read_text() == f"said by {number}"
        assert Path(result.path, "artifact").read_text() == str(number)


def test_a_trial_works_in_its_folder(tmp_path: Path) -> None:
    def writing(config: dict[str, Any]) -> dict[str, Any]:
        Path("artifact").write_text("mine")
        return {"x": 1}

    [result] = fit(writing, tmp_path, {})
    assert Path(result.path, "artifact").read_text() == "mine"


def test_a_stopped_function_is_unwound(tmp_path: Path) -> None:
    def holding(config: dict[str, Any]) -> None:
        try:
            while True:
                tune.report({"x": 1})
        finally:
            Path(config["mark"]).touch()

    fit(holding, tmp_path, {"mark": str(tmp_path / "mark")}, run={"stop": {"training_iteration": 3}})
    assert (tmp_path / "mark").exists()


def test_event_files_can_be_read(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")

    def reporting(config: dict[str, Any]) -> None:
        for step in range(3):
            tune.report({"loss": float(step)})

    [result] = fit(reporting, tmp_path, {})
    [file] = Path(result.path).glob("events.out.tfevents*")
    events = list(reading.LegacyEventFileLoader(str(file)).Load())
    found = [
        (event.step, value.simple_value)
        for event in events
        for value in event.summary.value
        if value.tag == "ray/tune/loss"
    ]
    assert found == [(1, 0.0), (2, 1.0), (3, 2.0)]


def test_the_example_runs(tmp_path: Path) -> None:
    import subprocess
    import sys

    for package in ("sklearn", "optuna", "matplotlib"):
        pytest.importorskip(package)
    program = Path(__file__).parents[2] / "examples" / "tune" / "digits.py"
    out = tmp_path / "digits.png"
    done = subprocess.run(
        [sys.executable, str(program), "--trials", "6", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "best accuracy 0." in done.stdout
    assert out.stat().st_size > 10_000


def test_xgboost_reports_to_its_trial(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")

    def boosting(config: dict[str, Any]) -> None:
        import numpy as np
        import xgboost

        from skate.tune.integration.xgboost import TuneReportCheckpointCallback

        random = np.random.default_rng(0)
        rows = random.random((200, 3))
        table = xgboost.DMatrix(rows, label=rows[:, 0] > 0.5)
        parameters = {"objective": "binary:logistic", "eta": config["eta"], "nthread": 1}
        xgboost.train(
            parameters,
            table,
            5,
            evals=[(table, "train")],
            verbose_eval=False,
            callbacks=[TuneReportCheckpointCallback()],
        )

    results = fit(
        boosting, tmp_path, {"eta": tune.grid_search([0.01, 0.5])}, metric="train-logloss", mode="min"
    )
    assert results.errors == []
    assert results.get_best_result().config["eta"] == 0.5
    assert results.get_best_result().metrics["training_iteration"] == 6, (
        "five rounds, and the model at the end"
    )
    assert results.get_best_result().checkpoint is not None


def test_what_a_trial_imports_is_loaded_before_its_process_is_forked() -> None:
    program = """
import sys
import skate.worker.main, skate.worker.environment
import skate.tune.execution.actor
before = set(sys.modules)
import tempfile
from skate.train.storage.run_folder import RunFolder
from skate.tune.execution.actor import TrialActor
from skate.tune.experiment.trial_folder import TrialFolder
from skate.tune.trainable.session import TrialSpec
with tempfile.TemporaryDirectory() as folder:
    spec = TrialSpec("1", "trial", "search", TrialFolder(RunFolder(folder, "search"), "trial"), {"x": 1})
    print(TrialActor(lambda config: {"loss": config["x"]}, spec).advance()["loss"])
    import os; os.chdir("/")
print(sorted(name for name in set(sys.modules) - before if name.startswith("skate")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n", 1) == ["1", "[]\n"], done.stderr
