"""Schedulers as pure machines: traces from the papers, and worked by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate.train.storage.retention_policy import KeptCheckpoint
from skate.tune.execution.commands import Note, Save, Start, Stop, Write
from skate.tune.execution.machine import Machine
from skate.tune.execution.settings import Settings
from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.trial import Trial
from skate.tune.schedulers import (
    AsyncHyperBandScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
)
from skate.tune.schedulers.exploration import explored
from skate.tune.schedulers.pb2 import PB2, propose
from skate.tune.search.basic_variant import BasicVariantGenerator


def function(config: dict[str, Any]) -> None:
    """Never called: the machine is stepped by hand."""


class Bench:
    """A machine whose trials are stepped by hand."""

    def __init__(
        self, scheduler: Any, trials: int, slots: int = 1000, config: Any = None, can_save: bool = False
    ) -> None:
        search = BasicVariantGenerator()
        search.add_configurations(
            Experiment(
                "bench",
                function,
                config={"n": tune.grid_search(list(range(trials))), **(config or {})},
                storage_path="/tmp",
            )
        )
        scheduler.set_search_properties("m", "max")
        self.machine = Machine(search, scheduler, None, Settings(can_save=lambda trial: can_save))
        self.scheduler = scheduler
        self.slots = slots
        self.commands: list[Any] = []
        self.steps: dict[str, int] = {}

    def fill(self) -> None:
        running = lambda: sum(trial.status == Trial.RUNNING for trial in self.machine.trials)  # noqa: E731
        for given in self.machine.fill(lambda trial: running() < self.slots):
            self.note(given)

    def note(self, given: list[Any]) -> None:
        self.commands += given
        for command in given:
            if isinstance(command, Start) and command.source is not None:
                self.steps[command.trial.trial_id] = command.source.iteration

    def step(self, trial: Trial, value: float, **more: Any) -> None:
        self.steps[trial.trial_id] = self.steps.get(trial.trial_id, 0) + 1
        at = self.steps[trial.trial_id]
        result = {"m": value, "training_iteration": at, "time_total_s": float(at), "done": False, **more}
        self.note(self.machine.came(trial, result))

    def running(self) -> list[Trial]:
        return [trial for trial in self.machine.trials if trial.status == Trial.RUNNING]


def test_asha_by_hand() -> None:
    # Reduction 2, rungs at 1, 2 and 4: a trial continues if it is at least the median of those that were there before it.
    bench = Bench(AsyncHyperBandScheduler(max_t=8, grace_period=1, reduction_factor=2), 4)
    bench.fill()
    a, b, c, d = bench.machine.trials
    bench.step(a, 10)  # the first at a rung always continues
    assert a.status == Trial.RUNNING
    bench.step(b, 5)  # 5 < 10
    assert b.status == Trial.TERMINATED
    bench.step(c, 8)  # the median of 10 and 5 is 7.5
    assert c.status == Trial.RUNNING
    bench.step(d, 7)  # the median of 10, 5 and 8 is 8
    assert d.status == Trial.TERMINATED
    bench.step(c, 1)  # the first at 2
    bench.step(a, 0)
    assert (a.status, c.status) == (Trial.TERMINATED, Trial.RUNNING)
    for _ in range(5):
        bench.step(c, 1)
    assert c.status == Trial.RUNNING
    bench.step(c, 1)  # max_t
    assert c.status == Trial.TERMINATED


def test_asha_s_rungs_are_the_paper_s() -> None:
    # Li et al. 2020, figure 1: r=1, R=9, eta=3.
    scheduler = AsyncHyperBandScheduler(max_t=9, grace_period=1, reduction_factor=3, brackets=3)
    rungs = [[at for at, _ in bracket.rungs] for bracket in scheduler._brackets]
    assert rungs == [[9, 3, 1], [9, 3], [9]]


def test_asha_by_hand_with_a_factor_of_three() -> None:
    # Rungs at 1, 3 and 9 of reduction 3: to continue, a trial is at or above the upper third of those that came there before it,
    # interpolated as numpy.nanpercentile does: with values a <= b the point 2/3 of the way from a to b.
    bench = Bench(AsyncHyperBandScheduler(max_t=9, grace_period=1, reduction_factor=3), 6)
    bench.fill()
    trials = bench.machine.trials
    # rung 1: value, cut of those before, whether it continues
    written = [
        (3, None, True),  # nobody was here
        (6, 3, True),  # [3]
        (4, 5, False),  # [3 6]: 3 + 2/3 * 3
        (5, 4 + 2 / 3, True),  # [3 4 6]: place 4/3, 4 + 1/3 * 2
        (4.9, 5, False),  # [3 4 5 6]: place 2
        (9, 4.9 + 2 / 3 * 0.1, True),  # [3 4 4.9 5 6]: place 8/3
    ]
    for trial, (value, cut, goes_on) in zip(trials, written, strict=True):
        bench.step(trial, value)
        assert (cut is None or value >= cut) == goes_on, "the table itself"
        assert (trial.status == Trial.RUNNING) == goes_on, (value, cut)
    # rung 3: the first three that come are 5, 9 and 3.
    alive = [trials[3], trials[5], trials[0], trials[1]]
    for trial, value, goes_on in zip(alive, (5, 9, 3, 8), (True, True, False, True), strict=True):
        bench.step(trial, value)  # 2 is no rung
        assert trial.status == Trial.RUNNING
        bench.step(trial, value)
        assert (trial.status == Trial.RUNNING) == goes_on, (
            "cuts: none, 5, 5 + 2/3 * 4, and 5 + 1/3 * 4 of [3 5 9]"
        )
    for trial in (trials[3], trials[5], trials[1]):
        for _ in range(6):
            if trial.status == Trial.RUNNING:
                bench.step(trial, 1)
    assert {trial.status for trial in trials} == {Trial.TERMINATED}, "max_t is 9"


def test_asha_without_an_end() -> None:
    bench = Bench(AsyncHyperBandScheduler(max_t=2, stop_last_trials=False), 1)
    bench.fill()
    [trial] = bench.machine.trials
    for _ in range(5):
        bench.step(trial, 1)
    assert trial.status == Trial.RUNNING


def test_hyperband_s_brackets_are_the_paper_s() -> None:
    # Li et al. 2018, table 1: R=81, eta=3; (trials, first step) of each bracket, the last first here.
    bench = Bench(HyperBandScheduler(max_t=81), 143)
    bench.fill()
    found = [(bracket._n, bracket._cumul_r) for bracket in bench.scheduler._hyperbands[0]]
    assert found == [(5, 81), (8, 27), (15, 9), (34, 3), (81, 1)]


def test_a_bracket_of_hyperband_is_halved_as_in_the_paper() -> None:
    # Table 1, s=4: 81 trials to 1, 27 to 3, 9 to 9, 3 to 27, 1 to 81; the best are kept.
    bench = Bench(HyperBandScheduler(max_t=81), 143)
    bench.fill()
    bracket = bench.scheduler._hyperbands[0][4]
    members = bracket.current_trials()
    seen = []
    while bracket.current_trials():
        alive = [trial for trial in members if not trial.is_finished()]
        target = bracket._cumul_r
        seen.append((len(alive), target))
        for trial in alive:
            trial.status = Trial.RUNNING
            while trial.status == Trial.RUNNING and bench.steps.get(trial.trial_id, 0) < target:
                bench.step(trial, trial.config["n"])
    assert seen == [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    top = max(members, key=lambda trial: trial.config["n"])
    assert bench.steps[top.trial_id] == 81


def test_median_stopping_by_hand() -> None:
    bench = Bench(
        MedianStoppingRule(time_attr="training_iteration", grace_period=2, min_samples_required=2), 4
    )
    bench.fill()
    a, b, c, d = bench.machine.trials
    for trial, values in ((a, (9, 9, 9)), (b, (5, 5, 5)), (c, (1, 1))):
        for value in values:
            bench.step(trial, value)
    # c at 2: the averages of a and b from the grace period on are 9 and 5, their median 7; its best is 1.
    assert (a.status, b.status, c.status) == (Trial.RUNNING, Trial.RUNNING, Trial.TERMINATED)
    bench.step(d, 0)
    assert d.status == Trial.RUNNING  # before the grace period
    bench.step(d, 6)  # the averages are 9, 5 and 1: the median is 5
    assert d.status == Trial.RUNNING


def test_median_stopping_pauses() -> None:
    rule = MedianStoppingRule(
        time_attr="training_iteration", grace_period=1, min_samples_required=1, hard_stop=False
    )
    bench = Bench(rule, 2)
    bench.fill()
    a, b = bench.machine.trials
    bench.step(a, 9)
    bench.step(b, 1)
    assert b.status == Trial.PAUSED


def give_checkpoint(trial: Trial, at: int) -> None:
    trial.kept.append(
        KeptCheckpoint(f"checkpoint_{at:06d}", {"training_iteration": at, "time_total_s": float(at)}, at)
    )


def test_pbt_by_hand() -> None:
    random.seed(1)
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": [1, 2, 4]},
        resample_probability=0,
    )
    bench = Bench(scheduler, 4, config={"lr": 2})
    bench.fill()
    trials = bench.machine.trials
    for trial in trials:
        give_checkpoint(trial, 2)
    for value, trial in enumerate(trials):  # the first is the worst, but nobody else was looked at yet
        bench.step(trial, value)
        bench.step(trial, value)
    assert [trial.status for trial in trials] == [Trial.RUNNING] * 4
    best, worst = trials[3], trials[0]
    bench.step(worst, 0)
    bench.step(worst, 0)
    assert worst.status == Trial.PAUSED, "the lowest of four gives up"
    assert worst.source is not None and worst.source.trial_id == best.trial_id
    assert worst.config["lr"] in (1, 4), "a neighbour of the best's value"
    assert worst.config["n"] == best.config["n"]
    assert worst.experiment_tag.startswith("0_n=0@perturbed[lr=")
    bench.fill()
    start = [command for command in bench.commands if isinstance(command, Start)][-1]
    assert start.trial is worst and start.source is not None and start.source.iteration == 2
    lines = [command for command in bench.commands if isinstance(command, Write)]
    assert [line.name for line in lines] == ["pbt_global.txt", f"pbt_policy_{worst.trial_id}.txt"]


def pbt(**given: Any) -> PopulationBasedTraining:
    return PopulationBasedTraining(
        time_attr="training_iteration",
        hyperparam_mutations={"lr": [1, 2]},
        **{"perturbation_interval": 1, **given},
    )


def test_pbt_hands_on_in_a_report_that_has_a_checkpoint_of_its_own() -> None:
    bench = Bench(pbt(), 2, config={"lr": 1})
    bench.fill()
    a, b = bench.machine.trials
    bench.step(a, 1)
    bench.step(b, 2, checkpoint_dir_name="checkpoint_000000")  # among the best when it is looked at
    bench.commands.clear()
    bench.step(a, 1, checkpoint_dir_name="checkpoint_000000")
    notes = [command.entry["e"] for command in bench.commands if isinstance(command, Note)]
    assert notes == ["result", "pause", "exploit"], "the journal has them in the order in which they were"
    bench.fill()
    start = [command for command in bench.commands if isinstance(command, Start)][-1]
    assert start.trial is a and start.source is not None
    assert start.source.trial_id == b.trial_id, "not from what it has just saved itself"


def test_a_trial_that_fails_before_it_saves_starts_again_from_what_it_was_handed() -> None:
    bench = Bench(pbt(), 2, config={"lr": 1})
    bench.fill()
    a, b = bench.machine.trials
    a.max_failures = 1
    bench.step(a, 1)
    bench.step(b, 2, checkpoint_dir_name="checkpoint_000000")  # among the best when it is looked at
    bench.step(a, 1, checkpoint_dir_name="checkpoint_000000")
    bench.fill()
    bench.note(bench.machine.failed(a, ValueError("once"), "once"))
    bench.fill()
    start = [command for command in bench.commands if isinstance(command, Start)][-1]
    assert start.trial is a and start.source is not None and start.source.trial_id == b.trial_id


def test_an_end_is_noted_after_what_is_saved_last() -> None:
    bench = Bench(AsyncHyperBandScheduler(max_t=1), 1, can_save=True)
    bench.fill()
    [trial] = bench.machine.trials
    trial.checkpoint_config.checkpoint_at_end = True
    bench.commands.clear()
    bench.step(trial, 1)
    notes = lambda: [command.entry["e"] for command in bench.commands if isinstance(command, Note)]  # noqa: E731
    assert notes() == ["result"] and not bench.machine.is_settled()
    bench.note(bench.machine.saved(trial, "checkpoint_000000"))
    assert notes() == ["result", "saved", "end"] and bench.machine.is_settled()


def test_pbt_saves_the_best_of_a_class() -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=1, hyperparam_mutations={"lr": [1, 2]}
    )
    bench = Bench(scheduler, 2, config={"lr": 1}, can_save=True)
    bench.fill()
    a, b = bench.machine.trials
    bench.step(a, 1)
    bench.step(b, 2)
    assert [command.trial for command in bench.commands if isinstance(command, Save)] == [b]
    bench.step(a, 1)
    assert a.status == Trial.PAUSED
    assert a.source is None, "it waits for what is being saved"
    bench.fill()
    assert a.status == Trial.PAUSED
    bench.note(bench.machine.saved(b, "checkpoint_000000"))
    bench.fill()
    assert a.status == Trial.RUNNING


def test_a_checkpoint_that_another_starts_from_stays() -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=1, hyperparam_mutations={"lr": [1, 2]}
    )
    bench = Bench(scheduler, 2, config={"lr": 1})
    bench.fill()
    a, b = bench.machine.trials
    b.checkpoint_config.num_to_keep = 1
    bench.step(a, 1)
    bench.step(b, 2, checkpoint_dir_name="checkpoint_000000")  # among the best when it is looked at
    bench.step(a, 1)
    assert a.status == Trial.PAUSED
    bench.step(b, 2, checkpoint_dir_name="checkpoint_000001")
    deleted = [command.name for command in bench.commands if type(command).__name__ == "Delete"]
    assert deleted == [], "the other has not started from it yet"
    bench.fill()
    bench.step(a, 1, checkpoint_dir_name="checkpoint_000000")
    deleted = [
        (command.trial, command.name) for command in bench.commands if type(command).__name__ == "Delete"
    ]
    assert (b, "checkpoint_000000") in deleted


def test_pbt_together() -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": [1, 2]},
        synch=True,
    )
    bench = Bench(scheduler, 3, config={"lr": 1})
    bench.fill()
    trials = bench.machine.trials
    for value, trial in enumerate(trials):
        give_checkpoint(trial, 2)
        bench.step(trial, value)
        bench.step(trial, value)
    assert [trial.status for trial in trials] == [Trial.PAUSED] * 3
    bench.fill()
    assert [trial.status for trial in trials] == [Trial.RUNNING] * 3
    assert trials[0].config["n"] == 2, "the worst has the best's configuration"


def test_numbers_are_moved_by_factors() -> None:
    random.seed(0)
    for _ in range(20):
        found = explored(
            {"x": 10.0, "n": 10}, {"x": tune.uniform(0, 1), "n": tune.randint(0, 9)}, 0, (1.2, 0.8), None
        )
        assert found["x"] in (12.0, 8.0)
        assert found["n"] in (12, 8)


def test_everything_is_drawn_anew() -> None:
    found = explored({"x": 10.0}, {"x": lambda: 3}, 1, (1.2, 0.8), None)
    assert found == {"x": 3}


def test_nested_and_custom() -> None:
    found = explored(
        {"a": {"x": 1.0}}, {"a": {"x": lambda: 5.0}}, 1, (1.2, 0.8), lambda config: {**config, "more": 1}
    )
    assert found == {"a": {"x": 5.0}, "more": 1}


def test_a_replay_follows_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "pbt_policy_x.txt"
    lines = [["0", "1", 2, 2, {"lr": 1}, {"lr": 5}], ["0", "1", 4, 4, {"lr": 5}, {"lr": 7}]]
    file.write_text("\n".join(map(json.dumps, lines)))
    bench = Bench(PopulationBasedTrainingReplay(str(file)), 1, can_save=True)
    bench.fill()
    [trial] = bench.machine.trials
    assert trial.config["lr"] == 1
    bench.step(trial, 0)
    bench.step(trial, 0)
    assert trial.status == Trial.PAUSED
    assert trial.config["lr"] == 5
    bench.note(bench.machine.saved(trial, "checkpoint_000000"))
    bench.fill()
    assert trial.status == Trial.RUNNING
    bench.step(trial, 0)
    bench.step(trial, 0)
    assert trial.config["lr"] == 7


def test_hyperband_for_bohb_halves_as_hyperband_does() -> None:
    # R=9, eta=3: brackets of 3 trials to 9, 5 (its ceiling) to 3 and 9 to 1 (Li et al. 2018, n = ceil((s_max+1)/(s+1) * eta^s)).
    bench = Bench(HyperBandForBOHB(max_t=9), 17)
    bench.fill()
    assert [(each._n, each._cumul_r) for each in bench.scheduler._hyperbands[0]] == [(9, 1), (5, 3), (3, 9)]


def test_pb2_without_results_is_the_same_for_a_seed_of_random() -> None:
    def walk() -> list[float]:
        random.seed(4)
        bench = Bench(
            PB2(time_attr="training_iteration", perturbation_interval=1, hyperparam_bounds={"lr": [0, 1]}), 4
        )
        bench.fill()
        for trial in bench.machine.trials:
            give_checkpoint(trial, 1)
        for _ in range(3):
            for value, trial in enumerate(bench.running()):
                bench.step(trial, value)
            bench.fill()
        return [trial.config["lr"] for trial in bench.machine.trials]

    assert walk() == walk()


def test_pb2_proposes_what_has_helped() -> None:
    seen = [(float(at), [x / 10], 0.0, -abs(x / 10 - 0.7)) for at, x in enumerate((0, 2, 4, 6, 7, 8, 10))]
    [found] = propose(seen, 7.0, 0.0, seed=1)
    assert 0.5 < found < 0.9


def test_pb2_stays_within_its_bounds() -> None:
    bench = Bench(
        PB2(time_attr="training_iteration", perturbation_interval=1, hyperparam_bounds={"lr": [0.1, 0.2]}), 4
    )
    bench.fill()
    for trial in bench.machine.trials:
        give_checkpoint(trial, 1)
    for _ in range(6):
        bench.fill()
        for value, trial in enumerate(bench.running()):
            bench.step(trial, value)
    assert all(0.1 <= trial.config["lr"] <= 0.2 for trial in bench.machine.trials)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AsyncHyperBandScheduler(max_t=1, grace_period=2),
        lambda: AsyncHyperBandScheduler(reduction_factor=1),
        lambda: AsyncHyperBandScheduler(mode="maximum"),
        lambda: HyperBandScheduler(max_t=0),
        lambda: MedianStoppingRule(mode="x"),
        lambda: PopulationBasedTraining(hyperparam_mutations={"a": [1]}, quantile_fraction=0.7),
        lambda: PopulationBasedTraining(hyperparam_mutations={"a": [1]}, perturbation_interval=0),
        lambda: PB2(hyperparam_bounds={"a": [2, 1]}),
    ],
)
def test_bad_arguments(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


def test_a_stop_is_told_once() -> None:
    bench = Bench(AsyncHyperBandScheduler(max_t=1), 3)
    bench.fill()
    for trial in list(bench.machine.trials):
        bench.step(trial, 1)
    assert [command.trial for command in bench.commands if isinstance(command, Stop)] == bench.machine.trials
    assert bench.machine.is_finished() or not bench.machine.live
