"""What is measured of searches: each scenario on one target, in a process of its own; figures are milliseconds.

`bare` is what a program would write without a library of trials: a pool of processes, or Optuna alone. A figure is the median
of several runs in a process that has run the same once before.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.session import INIT

#: What the project asks of itself.
REACH = {
    "one_trial": "≤ 300 ms, ≥ 10x Ray",
    "trials_16_reports_10": "≥ 10x Ray",
    "trials_1000": "≥ 10x Ray, flat",
    "trials_100": "",
    "results_10000": "",
    "journal_10000": "≤ 1000 ms",
    "pbt_8": "",
    "optuna_50": "",
}
FEW = {"trials_1000": 1, "trials_100": 1, "results_10000": 1}


def trivial(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": config.get("x", 0.0) ** 2}


def reporting(config: dict[str, Any]) -> None:
    for step in range(config["reports"]):
        config["tune"]().report({"loss": step})


class Loaded:
    """The target's `tune`, found in the process of a trial."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> Any:
        return importlib.import_module(f"{self.name}.tune")


def search(tune: Any, trainable: Any, space: dict[str, Any], **given: Any) -> Any:
    """A search into a folder that goes."""
    folder = tempfile.mkdtemp(prefix="bench-tune-")
    try:
        return tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(**given),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one_trial(tune: Any) -> Callable[[], object]:
    """A function that returns a dict at once."""
    return lambda: search(tune, trivial, {})


def trials_16_reports_10(tune: Any) -> Callable[[], object]:
    """16 trials, each with 10 reports."""
    space = {"reports": 10, "tune": Loaded(tune.__name__.split(".")[0]), "x": tune.uniform(0, 1)}
    return lambda: search(tune, reporting, space, num_samples=16)


def trials_100(tune: Any) -> Callable[[], object]:
    """100 trials of a function that returns at once."""
    return lambda: search(tune, trivial, {"x": tune.uniform(0, 1)}, num_samples=100)


def trials_1000(tune: Any) -> Callable[[], object]:
    """1,000 of them: ten times 100 if the cost of a trial is flat."""
    return lambda: search(tune, trivial, {"x": tune.uniform(0, 1)}, num_samples=1000)


def results_10000(tune: Any) -> Callable[[], object]:
    """10,000 reports of two trials, end to end: the trial's process, the decision, the journal, three loggers."""
    space = {"reports": 5000, "tune": Loaded(tune.__name__.split(".")[0])}
    return lambda: search(tune, reporting, space, num_samples=2)


class Member:
    """Makes the class of a population's members, which the target's base is needed for."""

    @staticmethod
    def of(tune: Any) -> Any:
        class Growing(tune.Trainable):  # type: ignore[misc]
            def setup(self, config: dict[str, Any]) -> None:
                self.total, self.rate = 0.0, config["rate"]

            def step(self) -> dict[str, Any]:
                self.total += self.rate
                return {"loss": -self.total, "done": self.training_iteration >= 19}

            def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
                return {"total": self.total}

            def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
                self.total = checkpoint["total"]

            def reset_config(self, new_config: dict[str, Any]) -> bool:
                self.total, self.rate = 0.0, new_config["rate"]
                return True

        return Growing


def pbt_8(tune: Any) -> Callable[[], object]:
    """A population of 8 on two CPUs, 20 steps each, changed every 5."""

    def run() -> object:
        schedulers = importlib.import_module(f"{tune.__name__}.schedulers")
        scheduler = schedulers.PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=5,
            hyperparam_mutations={"rate": tune.uniform(0, 1)},
        )
        kind = tune.with_resources(Member.of(tune), {"cpu": 0.25})
        space = {"rate": tune.uniform(0, 1)}
        return search(
            tune,
            kind,
            space,
            num_samples=8,
            metric="loss",
            mode="min",
            scheduler=scheduler,
            reuse_actors=True,
        )

    return run


def optuna_50(tune: Any) -> Callable[[], object]:
    """50 trials that Optuna proposes, two at a time."""

    def run() -> object:
        searcher = importlib.import_module(f"{tune.__name__}.search.optuna").OptunaSearch(seed=1)
        space = {"x": tune.uniform(0, 1)}
        return search(
            tune,
            trivial,
            space,
            num_samples=50,
            metric="loss",
            mode="min",
            search_alg=searcher,
            max_concurrent_trials=2,
        )

    return run


def journal_10000(tune: Any) -> Callable[[], object]:
    """10,000 results through Skate's journal alone."""

    def run() -> object:
        journals = importlib.import_module("skate.tune.journal.journal")
        folders = importlib.import_module("skate.train.storage.run_folder")
        folder = tempfile.mkdtemp(prefix="bench-tune-")
        try:
            top = folders.RunFolder(folder, "search")
            top.create()
            journal = journals.ExperimentJournal(top, lambda: ({"trials": []}, 0))
            journal.begin()
            result = {
                "loss": 0.5,
                "training_iteration": 1,
                "time_total_s": 1.5,
                "date": "2000-01-01",
                "done": False,
            }
            for step in range(10_000):
                journal.append({"e": "result", "id": "abcde_00000", "r": {**result, "step": step}})
                if journal.due:
                    journal.take_snapshot()
            journal.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None

    return run


SCENARIOS = {
    each.__name__: each
    for each in (one_trial, trials_16_reports_10, trials_100, trials_1000, results_10000, pbt_8, optuna_50)
}
OURS = {"journal_10000": journal_10000}


def bare(name: str) -> Callable[[], object] | None:
    """The same without a library of trials, where there is such a thing."""
    import concurrent.futures  # only this side needs it
    import multiprocessing

    counts = {"one_trial": 1, "trials_100": 100, "trials_1000": 1000}
    if name in counts:
        context = multiprocessing.get_context("forkserver")

        def pool() -> object:
            with concurrent.futures.ProcessPoolExecutor(2, context) as workers:
                return list(workers.map(trivial, [{"x": at / 1000} for at in range(counts[name])]))

        return pool
    if name == "optuna_50":
        import optuna  # as above

        optuna.logging.set_verbosity(optuna.logging.WARNING)

        def alone() -> object:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=50)
            return study.best_value

        return alone
    return None


def milliseconds(work: Callable[[], object], least: int, seconds: float = 10.0) -> float:
    """The median time of a piece of work; what is short is run once before, uncounted."""
    if least > 1:
        work()
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < least or (len(found) < 5 and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
        if time.perf_counter() - begin > 60:
            break
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    parser.add_argument("--target", default="skate", choices=("bare", "skate", "ray"))
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
    )
    name = args.scenario
    work: Any
    if args.target == "bare":
        work = bare(name)
        figures = {} if work is None else {name: milliseconds(work, FEW.get(name, 3))}
    elif name in OURS:
        figures = {name: milliseconds(OURS[name](None), 3)} if args.target == "skate" else {}
    else:
        ray = importlib.import_module(args.target)
        tune = importlib.import_module(f"{args.target}.tune")
        ray.init(**INIT)
        try:
            figures = {name: milliseconds(SCENARIOS[name](tune), FEW.get(name, 3))}
        finally:
            ray.shutdown()
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
