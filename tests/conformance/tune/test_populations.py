"""Decisions and configurations of population based training, in searches without processes."""

from __future__ import annotations

import hashlib
import json
import pathlib
import random

import numpy as np
import pytest
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import PopulationBasedTraining, TrialScheduler
from searches import FakeSearch

#: Digests of what Ray 2.60 decided in searches of three seeds.
DECISIONS = json.loads(pathlib.Path(__file__).with_name("populations.json").read_text())
SPACES = {
    "list": {"a": [1, 2, 4, 8]},
    "tuple": {"a": (1.0, 2.0, 3.0)},
    "uniform": {"a": tune.uniform(0, 10)},
    "integer": {"a": tune.randint(1, 100)},
    "function": {"a": lambda: random.randrange(50)},
    "nested": {"a": {"b": [1, 2, 3], "c": tune.uniform(0, 1)}, "d": [0.1, 0.2]},
}


class Saved(Trial):
    """A trial that has a checkpoint while it is paused."""

    @property
    def checkpoint(self):
        return f"checkpoint of {self.trial_id}"


class Population(FakeSearch):
    """Trials of a population, which are saved and continue from each other at once."""

    def __init__(self, scheduler, count, seed, steps=150, **given):
        super().__init__(scheduler, count, seed=seed, **given)
        self.steps = steps
        for trial in self.trials:
            trial.__class__ = Saved

    def _schedule_trial_save(self, trial, result=None):
        self.save_trial(trial)
        return f"checkpoint of {trial.trial_id}"

    def save_trial(self, trial):
        self.log.append(f"{int(trial.trial_id[1:])}w")

    def _report(self, trial):
        number = int(trial.trial_id[1:])
        self.at[trial.trial_id] += 1
        result = {"training_iteration": self.at[trial.trial_id], "value": self._value()}
        decision = self.scheduler_alg.on_trial_result(self, trial, result)
        self.log.append(f"{number}{decision[0]}{trial.status[0]}")
        if decision in (TrialScheduler.PAUSE, TrialScheduler.STOP):
            trial.status = Trial.PAUSED if decision == TrialScheduler.PAUSE else Trial.TERMINATED

    def run(self):
        for _ in range(self.steps):
            while sum(each.status == Trial.RUNNING for each in self.trials) < self.room:
                trial = self.scheduler_alg.choose_trial_to_run(self)
                if trial is None:
                    break
                self.log.append(f"{int(trial.trial_id[1:])}+")
                trial.status = Trial.RUNNING
            running = [trial for trial in self.trials if trial.status == Trial.RUNNING]
            if not running:
                break
            self._report(self.random.choice(running))
        self.log.append(json.dumps([[each.config, each.experiment_tag or ""] for each in self.trials]))
        return " ".join(self.log)


def decided(name, seed):
    space, mode, room, fraction, interval, synch, strange = name.split("-")
    random.seed(seed)
    np.random.seed(seed)
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", metric="value", mode=mode, perturbation_interval=int(interval),
        burn_in_period=3 if space == "tuple" else 0, hyperparam_mutations=SPACES[space], quantile_fraction=float(fraction),
        resample_probability=0.25, log_config=False, synch=synch == "synch",
    )  # fmt: skip
    search = Population(scheduler, 6, seed, room=int(room), strange=float(strange))
    found = search.run()
    return f"{found} {scheduler.debug_string()}"


@pytest.mark.parametrize("name", sorted(DECISIONS))
def test_decisions_are_those_of_ray(name):
    found = [decided(name, seed) for seed in range(3)]
    assert [hashlib.sha256(each.encode()).hexdigest()[:10] for each in found] == DECISIONS[name]
