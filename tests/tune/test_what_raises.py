"""User code in a search that raises or returns invalid values; storage that cannot be written."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from skate.tune.schedulers import FIFOScheduler, PopulationBasedTraining
from skate.tune.search import Searcher


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=2, num_gpus=0)
    yield
    skate.shutdown()


pytestmark = pytest.mark.usefixtures("session")


def function(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": 1.0}


def fit(tmp_path: Path, trainable: Any = function, space: Any = None, run: Any = None, **given: Any) -> Any:
    run_config = tune.RunConfig(name="search", storage_path=str(tmp_path), verbose=0, **(run or {}))
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**given), run_config=run_config
    ).fit()


def can_still_search(tmp_path: Path) -> None:
    """Nothing is held of the search that was ended."""
    assert fit(tmp_path / "again", tune.with_resources(function, {"cpu": 2})).num_errors == 0


class Raising(Searcher):
    """Raises at the configured point."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.count = where, 0

    def suggest(self, trial_id: str) -> Any:
        self.count += 1
        if self.where == "suggest" and self.count == 2:
            raise RuntimeError("no more ideas")
        return {"x": 1}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        if self.where == "complete":
            raise RuntimeError("no more ideas")


@pytest.mark.parametrize("where", ["suggest", "complete"])
def test_a_searcher(tmp_path: Path, where: str) -> None:
    with pytest.raises(RuntimeError, match="no more ideas"):
        fit(tmp_path, search_alg=Raising(where), num_samples=3, metric="loss", mode="min")
    assert tune.Tuner.can_restore(str(tmp_path / "search"))
    can_still_search(tmp_path)


@pytest.mark.parametrize(
    "hook", ["setup", "on_trial_start", "on_trial_result", "on_trial_complete", "on_step_end"]
)
def test_a_callback(tmp_path: Path, hook: str) -> None:
    def broken(self: Any, *given: Any, **named: Any) -> None:
        raise RuntimeError(f"broken in {hook}")

    callback = type("Broken", (tune.Callback,), {hook: broken})()
    with pytest.raises(RuntimeError, match=f"broken in {hook}"):
        fit(tmp_path, run={"callbacks": [callback]})
    can_still_search(tmp_path)


def test_a_scheduler(tmp_path: Path) -> None:
    class Broken(FIFOScheduler):
        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fit(tmp_path, scheduler=Broken())
    can_still_search(tmp_path)


def test_a_trainable_that_returns_no_dict(tmp_path: Path) -> None:
    [result] = fit(tmp_path, lambda config: [1, 2])
    assert "returns or yields a dict of metrics, or one number, not list: [1, 2]" in str(result.error)


def test_a_report_of_no_dict(tmp_path: Path) -> None:
    def reporting(config: dict[str, Any]) -> None:
        tune.report(3)

    [result] = fit(tmp_path, reporting)
    assert "metrics must be a dict of names to values, such as {'loss': 0.5}, got int" in str(result.error)


def test_a_step_that_returns_nothing(tmp_path: Path) -> None:
    class Silent(tune.Trainable):
        def step(self) -> Any:
            return None

    [result] = fit(tmp_path, Silent)
    assert "Silent.step() needs to return a dict of metrics, not NoneType" in str(result.error)


def test_a_function_that_reports_nothing_and_a_metric(tmp_path: Path) -> None:
    results = fit(tmp_path, lambda config: None, metric="loss", mode="min")
    assert results.num_errors == 0
    with pytest.raises((ValueError, RuntimeError), match="loss"):
        results.get_best_result()


def test_nan_is_no_best_result_and_ends_no_search(tmp_path: Path) -> None:
    def partly(config: dict[str, Any]) -> None:
        for step in range(4):
            tune.report({"loss": math.nan if config["x"] else float(step)})

    scheduler = tune.schedulers.ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)
    space = {"x": tune.grid_search([1, 0, 1])}
    results = fit(tmp_path, partly, space, metric="loss", mode="min", scheduler=scheduler)
    assert results.errors == []
    assert results.get_best_result().config["x"] == 0


def test_two_trials_of_one_folder(tmp_path: Path) -> None:
    """The second gets a folder of another name."""

    def saving(config: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x").write_text(str(config["x"]))
            tune.report({"x": config["x"]}, checkpoint=tune.Checkpoint.from_directory(folder))

    space = {"x": tune.grid_search([1, 2])}
    results = fit(tmp_path, saving, space, trial_dirname_creator=lambda trial: "one")
    assert results.errors == []
    for result in results:
        with result.checkpoint.as_directory() as folder:
            assert Path(folder, "x").read_text() == str(result.config["x"])


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="needs a folder that nobody writes to")
def test_a_storage_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/proc/version"):
        fit(Path("/proc/version/here"))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        fit(tmp_path / "file")


def test_a_population_hands_checkpoints_on_without_copies(tmp_path: Path) -> None:
    def growing(config: dict[str, Any]) -> None:
        first, node, marks = 0, 0, Path(config["marks"])
        checkpoint = tune.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                file = Path(folder, "step")
                first, node = int(file.read_text().split()[0]) + 1, file.stat().st_ino
                with open(marks, "a") as lines:
                    lines.write(f"{file.read_text()} {node} {tune.get_context().get_trial_id()}\n")
        for step in range(first, 4):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "step").write_text(f"{step} {tune.get_context().get_trial_id()}")
                tune.report({"score": config["rate"]}, checkpoint=tune.Checkpoint.from_directory(folder))

    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"rate": [1, 10]}, synch=True
    )  # fmt: skip
    space = {"rate": tune.grid_search([1, 10]), "marks": str(tmp_path / "marks")}
    results = fit(tmp_path, growing, space, metric="score", mode="max", scheduler=scheduler)
    assert results.errors == []
    nodes = {
        file.stat().st_ino: file.parent.parent.name
        for file in (tmp_path / "search").glob("growing_*/checkpoint_*/step")
    }
    handed = [line.split() for line in (tmp_path / "marks").read_text().splitlines()]
    taken = [(owner, node, trial) for _, owner, node, trial in handed if owner != trial]
    assert taken, "one has gone on from the other's checkpoint"
    for owner, node, _ in taken:
        assert owner in nodes[int(node)], "it is the other's own file that was read"
