"""Measurements of searches: each scenario on one target, in a process of its own; figures are milliseconds.

`bare` is what a program would write without a library of trials: a pool of processes, or Optuna alone. A figure is the median
of several runs in a process that has run the same once before; on Ray, whose searches take long, of fewer, after a single trial.
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
    "a_trial_of_1_to_100": "",
    "a_trial_of_450_to_550": "≤ 1.5x that of 1 to 100",
    "a_trial_of_900_to_1000": "≤ 1.5x that of 1 to 100",
    "KiB_of_the_driver_a_trial": "",
    "trials_1000_process_each": "",
    "trials_1000_reused": "≤ 1 ms each",
    "trials_100": "",
    "results_10000": "",
    "journal_10000": "≤ 1000 ms",
    "pbt_8": "",
    "optuna_50": "",
    "optuna_50_pool": "",
}
FEW = {
    "trials_1000": 1,
    "trials_1000_process_each": 1,
    "trials_1000_reused": 1,
    "trials_100": 1,
    "results_10000": 1,
}
MEMORY = "/dev/shm"
#: Runs on Ray, of what takes it seconds; what is not named runs once.
ON_RAY = {"one_trial": 3}


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


def search(
    tune: Any, trainable: Any, space: dict[str, Any], callbacks: list[Any] | None = None, **given: Any
) -> Any:
    """A search into a folder that goes, in memory: some file systems take a millisecond to create a file."""
    folder = tempfile.mkdtemp(prefix="bench-tune-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    try:
        return tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(**given),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=callbacks),
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


def resident() -> float:
    """KiB of memory that this process has to itself, or its part of what it shares."""
    found = Path("/proc/self/smaps_rollup").read_text()
    return float(next(line.split()[1] for line in found.splitlines() if line.startswith("Pss:")))


def trials_1000(tune: Any) -> Callable[[], object]:
    """1,000 of them, with what a trial costs at the beginning, in the middle and at the end."""

    class Ends(tune.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.at: list[float] = []
            self.memory: list[float] = []

        def on_trial_complete(self, **info: Any) -> None:
            self.at.append(time.perf_counter())
            if len(self.at) % 100 == 0:
                self.memory.append(resident())

    def run() -> dict[str, float]:
        ends = Ends()
        begin = time.perf_counter()
        search(tune, trivial, {"x": tune.uniform(0, 1)}, callbacks=[ends], num_samples=1000)
        at = [begin, *ends.at]
        return {
            "a_trial_of_1_to_100": (at[100] - at[0]) * 10,
            "a_trial_of_450_to_550": (at[550] - at[450]) * 10,
            "a_trial_of_900_to_1000": (at[1000] - at[900]) * 10,
            "KiB_of_the_driver_a_trial": (ends.memory[-1] - ends.memory[0]) / 900,
        }

    return run


def trials_1000_reused(tune: Any) -> Callable[[], object]:
    """1,000 of them in processes that are used again."""
    return lambda: search(tune, trivial, {"x": tune.uniform(0, 1)}, num_samples=1000, reuse_actors=True)


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
    for each in (
        one_trial,
        trials_16_reports_10,
        trials_100,
        trials_1000,
        trials_1000_reused,
        results_10000,
        pbt_8,
        optuna_50,
    )  # fmt: skip
}
OURS = {"journal_10000": journal_10000}


def bare(name: str) -> dict[str, Callable[[], object]]:
    """The same without a library of trials, where there is such a thing."""
    import concurrent.futures  # only this side needs it
    import multiprocessing

    counts = {"one_trial": 1, "trials_100": 100, "trials_1000": 1000, "trials_1000_reused": 1000}
    context = multiprocessing.get_context("forkserver")
    if name in counts:

        def pool() -> object:
            with concurrent.futures.ProcessPoolExecutor(2, context) as workers:
                return list(workers.map(trivial, [{"x": at / 1000} for at in range(counts[name])]))

        def process_each() -> object:
            with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as workers:
                return workers.map(trivial, [{"x": at / 1000} for at in range(counts[name])], chunksize=1)

        return (
            {name: pool, "trials_1000_process_each": process_each} if name == "trials_1000" else {name: pool}
        )
    if name != "optuna_50":
        return {}
    import optuna  # as above

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def study_of() -> Any:
        return optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))

    def alone() -> object:
        study = study_of()
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=50)
        return study.best_value

    def with_pool() -> object:
        study, running, asked = study_of(), {}, 0
        with concurrent.futures.ProcessPoolExecutor(2, context) as workers:
            while asked < 50 or running:
                while asked < 50 and len(running) < 2:
                    trial = study.ask()
                    running[workers.submit(trivial, {"x": trial.suggest_float("x", 0, 1)})] = trial
                    asked += 1
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for each in done:
                    study.tell(running.pop(each), each.result()["loss"])
        return study.best_value

    return {name: alone, "optuna_50_pool": with_pool}


def timed(name: str, work: Callable[[], object], least: int, seconds: float = 10.0) -> dict[str, float]:
    """The median milliseconds of a piece of work, and what it says of itself; what is short runs once before, uncounted."""
    if least > 1:
        work()
    found: list[float] = []
    said: dict[str, float] = {}
    begin = time.perf_counter()
    while len(found) < least or (least > 1 and len(found) < 5 and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        answer = work()
        found.append((time.perf_counter() - start) * 1000)
        if isinstance(answer, dict):
            said = answer
        if time.perf_counter() - begin > 60:
            break
    return {name: statistics.median(found), **said}


def measured(name: str, target: str) -> dict[str, float]:
    """All figures of a scenario on one target."""
    if target == "bare":
        found: dict[str, float] = {}
        for key, work in bare(name).items():
            found.update(timed(key, work, FEW.get(name, 3)))
        return found
    if name in OURS:
        return timed(name, OURS[name](None), 3) if target == "skate" else {}
    ray = importlib.import_module(target)
    tune = importlib.import_module(f"{target}.tune")
    ray.init(**INIT)
    try:
        if target == "ray":
            one_trial(tune)()
            return timed(name, SCENARIOS[name](tune), ON_RAY.get(name, 1))
        return timed(name, SCENARIOS[name](tune), FEW.get(name, 3))
    finally:
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=[*SCENARIOS, *OURS])
    parser.add_argument("--target", default="skate", choices=("skate", "ray", "bare"))
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
    )
    print(json.dumps({"figures": measured(args.scenario, args.target), "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
