"""Schedulers that change running trials, in real runs: their resources, and their configurations along a policy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import tune
from skate.tune.schedulers import (
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)
from skate.tune.schedulers.pb2 import PB2
from skate.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=4)
    yield
    ray.shutdown()


def growing(config: dict[str, Any]) -> None:
    """Continues from its checkpoint, and reports its resources."""
    step, checkpoint = 0, tune.get_checkpoint()
    if checkpoint is not None:
        step = int(Path(checkpoint.path, "step").read_text())
    request = tune.get_context().get_trial_resources()
    cpus = request.required_resources["CPU"]
    mark = Path(config["mark"]) if "mark" in config else None
    steps = config["steps"]
    if mark is not None and cpus >= 3 and config["score"] == 2:
        mark.touch()
        steps = max(steps, step + 3)  # so that it reports what it runs on
    if cpus == config.get("until_cpus"):
        steps = max(steps, step + 3)
    while (
        step < steps
        or (mark is not None and not mark.exists() and step < 2000)
        or (cpus < config.get("until_cpus", 0) and step < 2000)
    ):
        step += 1
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            tune.report(
                {
                    "step": step,
                    "score": config.get("score", 0),
                    "cpus": cpus,
                    "bundles": len(request.bundles),
                    "restored": checkpoint is not None,
                },
                checkpoint=tune.Checkpoint.from_directory(folder),
            )


def fit(
    folder: Path, trainable: Any, space: dict[str, Any], scheduler: Any, **given: Any
) -> list[list[dict[str, Any]]]:
    """The lines that each trial reported."""
    results = tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(scheduler=scheduler, **given),
        run_config=tune.RunConfig(storage_path=str(folder), name="search"),
    ).fit()
    assert not results.errors
    return [
        [json.loads(line) for line in Path(result.path, "result.json").read_text().splitlines()]
        for result in results
    ]


def test_the_last_trial_gets_everything(tmp_path: Path) -> None:
    scheduler = ResourceChangingScheduler(resources_allocation_function=DistributeResources())
    space = {
        "steps": tune.grid_search([3, 40]),
        "until_cpus": tune.sample_from(lambda spec: 4 if spec.config.steps == 40 else 0),
    }
    short, long = fit(tmp_path, growing, space, scheduler)
    assert [line["step"] for line in short] == [1, 2, 3]
    assert [line["step"] for line in long] == list(range(1, len(long) + 1)), (
        "no step is lost, and none is taken twice"
    )
    assert long[0]["cpus"] == 1
    assert not long[0]["restored"]
    assert long[-1]["cpus"] == 4, "nothing else runs"
    assert long[-1]["restored"]
    assert all(line["cpus"] <= 2 for line in short), "two trials share four CPUs"


def test_the_best_trial_gets_what_is_spare(tmp_path: Path) -> None:
    scheduler = ResourceChangingScheduler(
        resources_allocation_function=DistributeResourcesToTopJob(metric="score", mode="max")
    )
    space = {"steps": 25, "score": tune.grid_search([1, 2]), "mark": str(tmp_path / "mark")}
    worse, best = fit(tmp_path, growing, space, scheduler)
    assert max(line["cpus"] for line in best) >= 3
    assert len(worse) < 2000, "the best had them while the other ran"
    for lines in (worse, best):
        assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert worse[0]["cpus"] == 1


def test_bundles_are_added_but_not_what_is_reserved(tmp_path: Path) -> None:
    function = DistributeResources(add_bundles=True, reserve_resources={"CPU": 1})
    trainable = tune.with_resources(growing, tune.PlacementGroupFactory([{"CPU": 1}]))
    (lines,) = fit(tmp_path, trainable, {"steps": 8}, ResourceChangingScheduler(None, function))
    assert (lines[0]["bundles"], lines[0]["cpus"]) == (1, 1)
    assert (lines[-1]["bundles"], lines[-1]["cpus"]) == (3, 3)


def test_steps_of_resources(tmp_path: Path) -> None:
    function = DistributeResources(increase_by={"CPU": 1}, increase_by_times=1)
    (lines,) = fit(tmp_path, growing, {"steps": 6}, ResourceChangingScheduler(None, function))
    assert [line["cpus"] for line in lines] == [1, 2, 2, 2, 2, 2]


class Member(tune.Trainable):
    """Grows by its rate, which may be another from one step to the next."""

    def setup(self, config: dict[str, Any]) -> None:
        self.value = 0.0

    def step(self) -> dict[str, Any]:
        self.value += self.config["rate"]
        return {"value": self.value, "rate": self.config["rate"]}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "value").write_text(repr(self.value))

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        self.value = float(Path(checkpoint_dir, "value").read_text())


def test_a_policy_that_was_written_is_replayed(tmp_path: Path) -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"rate": [1, 2, 4, 8]},
        quantile_fraction=0.5,
        synch=True,
    )
    results = tune.Tuner(
        Member,
        param_space={"rate": tune.grid_search([1, 8])},
        tune_config=tune.TuneConfig(scheduler=scheduler, metric="value", mode="max"),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="pbt", stop={"training_iteration": 6}),
    ).fit()
    assert not results.errors
    policy, *_ = sorted(Path(results.experiment_path).glob("pbt_policy_*.txt"))
    lines = [json.loads(line) for line in policy.read_text().splitlines()]
    replay = PopulationBasedTrainingReplay(str(policy))
    (trial,) = tune.Tuner(
        Member,
        param_space={"rate": 0},
        tune_config=tune.TuneConfig(scheduler=replay),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="replay", stop={"training_iteration": 6}),
    ).fit()
    assert trial.error is None
    rates = [json.loads(line)["rate"] for line in Path(trial.path, "result.json").read_text().splitlines()]
    expected, rate = [], lines[0][4]["rate"]
    for iteration in range(1, 7):
        expected.append(rate)
        for line in lines:
            if line[3] == iteration:
                rate = line[5]["rate"]
    assert rates == expected
    assert trial.metrics["value"] == sum(expected), "it continues from its own checkpoints"


def test_pb2_moves_the_worse_half_within_its_bounds(tmp_path: Path) -> None:
    scheduler = PB2(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_bounds={"rate": [0.5, 4.0]},
        quantile_fraction=0.5,
        synch=True,
    )
    trials = fit(
        tmp_path,
        tune.with_parameters(Limited),
        {"rate": tune.uniform(0.5, 4.0)},
        scheduler,
        metric="value",
        mode="max",
        num_samples=4,
    )
    rates = {line["rate"] for lines in trials for line in lines}
    assert all(0.5 <= rate <= 4.0 for rate in rates)
    assert len(rates) > 4, "those that were worse continue with other rates"
    assert [lines[-1]["training_iteration"] for lines in trials] == [6] * 4


class Limited(Member):
    def step(self) -> dict[str, Any]:
        found = super().step()
        return {**found, "done": self.iteration == 5}
