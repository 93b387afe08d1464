"""A search without processes: it calls a scheduler like Tune, and records its decisions."""

from __future__ import annotations

import random
from unittest.mock import MagicMock

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

LETTER = {"CONTINUE": "c", "PAUSE": "p", "STOP": "s", "NOOP": "n"}


class FakeSearch:
    def __init__(
        self, scheduler, count, room=4, length=9, seed=0, time_attr="training_iteration", strange=0.0
    ):
        self.scheduler_alg = self._scheduler_alg = scheduler
        self.search_alg = MagicMock()
        self.search_alg.is_finished.return_value = True
        self.trials = []
        self.room, self.length, self.time_attr = room, length, time_attr
        self.random = random.Random(seed)
        self.strange = strange
        self.at = {}
        self.log = []
        for number in range(count):
            trial = Trial("fake", trial_id=f"t{number:03d}", stub=True)
            self.trials.append(trial)
            self.at[trial.trial_id] = 0
            scheduler.on_trial_add(self, trial)

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [trial for trial in self.trials if trial.status not in (Trial.TERMINATED, Trial.ERROR)]

    def has_resources_for_trial(self, trial):
        return sum(each.status == Trial.RUNNING for each in self.trials) < self.room

    def pause_trial(self, trial, should_checkpoint=True):
        trial.status = Trial.PAUSED

    def stop_trial(self, trial, error=False, exception=None):
        if trial.status in (Trial.TERMINATED, Trial.ERROR):
            return
        if trial.status in (Trial.PENDING, Trial.PAUSED):
            self.scheduler_alg.on_trial_remove(self, trial)
        self.log.append(f"{int(trial.trial_id[1:])}x")
        trial.status = Trial.TERMINATED

    def _set_trial_status(self, trial, status):
        trial.status = status

    def run(self):
        for _ in range(20000):
            while sum(each.status == Trial.RUNNING for each in self.trials) < self.room:
                trial = self.scheduler_alg.choose_trial_to_run(self)
                if trial is None:
                    break
                assert trial.status in (Trial.PENDING, Trial.PAUSED)
                self.log.append(f"{int(trial.trial_id[1:])}+")
                trial.status = Trial.RUNNING
            running = [trial for trial in self.trials if trial.status == Trial.RUNNING]
            if not running:
                break
            self._report(self.random.choice(running))
        return " ".join(self.log)

    def _value(self):
        if self.random.random() < self.strange:
            return self.random.choice([float("nan"), float("inf"), float("-inf")])
        return self.random.randrange(1000) / 10

    def _report(self, trial):
        self.at[trial.trial_id] += 1
        at = self.at[trial.trial_id]
        result = {"training_iteration": at, "time_total_s": at * 2.5, "value": self._value()}
        number = int(trial.trial_id[1:])
        if at >= self.length + number % 3:
            result["done"] = True
            if number % 5 == 4:
                self.scheduler_alg.on_trial_error(self, trial)
                trial.status = Trial.ERROR
                self.log.append(f"{number}e")
            else:
                self.scheduler_alg.on_trial_complete(self, trial, result)
                trial.status = Trial.TERMINATED
                self.log.append(f"{number}d")
            return
        decision = self.scheduler_alg.on_trial_result(self, trial, result)
        self.log.append(f"{number}{LETTER[decision]}")
        if decision == TrialScheduler.PAUSE:
            trial.status = Trial.PAUSED
        elif decision == TrialScheduler.STOP:
            # As a search does: a trial that its scheduler ends is told of as one that runs.
            self.scheduler_alg.on_trial_remove(self, trial)
            trial.status = Trial.TERMINATED
