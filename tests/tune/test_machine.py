"""The state machine of a search: hypothesis walks it and compares it with a model."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skate import tune
from skate.tune.execution.commands import Advance, Note, Start, Stop
from skate.tune.execution.machine import Machine
from skate.tune.execution.settings import Settings
from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.trial import Trial
from skate.tune.search.basic_variant import BasicVariantGenerator
from tests.tune.worlds import SCHEDULERS

LENGTH = 6


def function(config: dict[str, Any]) -> None:
    """Never called."""


class World:
    """Trials that report on command, on a number of slots."""

    def __init__(
        self, scheduler: Any, trials: int, slots: int, failures: int, saving: bool, returning: bool = False
    ) -> None:
        search = BasicVariantGenerator()
        space = {"n": tune.grid_search([*range(trials)]), "lr": 1}
        search.add_configurations(Experiment("world", function, config=space, max_failures=failures))
        scheduler.set_search_properties("m", "max")
        self.machine = Machine(search, scheduler, None, Settings())
        self.slots, self.saving, self.returning = slots, saving, returning
        self.at: dict[str, int] = {}
        self.due: dict[str, Trial] = {}
        self.ended: list[str] = []

    def take(self, given: list[Any]) -> None:
        for command in given:
            name = getattr(getattr(command, "trial", None), "trial_id", "")
            if isinstance(command, Start):
                assert name not in self.due, "a trial that runs is not started"
                self.at[name] = command.source.iteration if command.source else 0
                self.due[name] = command.trial
            elif isinstance(command, Advance):
                assert name not in self.due and command.trial.status == Trial.RUNNING
                self.due[name] = command.trial
            elif isinstance(command, Stop):
                self.due.pop(name, None)
            elif isinstance(command, Note) and command.entry["e"] == "end":
                self.ended.append(command.entry["id"])

    def running(self) -> int:
        return sum(trial.status == Trial.RUNNING for trial in self.machine.trials)

    def turn(self, pick: int, value: float, fails: bool) -> None:
        for commands in self.machine.fill(lambda trial: self.running() < self.slots):
            self.take(commands)
        assert self.running() <= self.slots
        if not self.due:
            self.take(self.machine.stuck())
            return
        names = sorted(self.due)
        trial = self.due.pop(names[pick % len(names)])
        if fails:
            self.take(self.machine.failed(trial, ValueError("asked to"), "asked to"))
            return
        name = trial.trial_id
        if self.at[name] >= LENGTH:
            self.take(self.machine.came(trial, {**trial.last_result, "done": True, "__duplicate__": True}))
            return
        self.at[name] += 1
        result = {
            "m": value,
            "training_iteration": self.at[name],
            "time_total_s": float(self.at[name]),
            "done": False,
        }
        if self.saving:
            result["checkpoint_dir_name"] = f"checkpoint_{trial.next_checkpoint:06d}"
        if self.returning and self.at[name] == LENGTH:
            result["__over__"] = True
        self.take(self.machine.came(trial, result))
        if self.returning and self.at[name] == LENGTH:
            assert name not in self.due, "no step follows once the function has returned"


@settings(max_examples=250, deadline=None)
@given(
    name=st.sampled_from(sorted(SCHEDULERS)),
    trials=st.integers(1, 7),
    slots=st.integers(1, 4),
    saving=st.booleans(),
    returning=st.booleans(),
    source=st.randoms(use_true_random=False),
    failing=st.sampled_from([0.0, 0.1]),
)
def test_every_search_ends_and_every_trial_once(
    name: str, trials: int, slots: int, saving: bool, returning: bool, source: Any, failing: float
) -> None:
    # Without checkpoints a trial that pauses begins again, so pausing schedulers would continue for long.
    saving = saving or name in ("hyperband", "median, pausing", "pbt", "pbt, together")
    world = World(SCHEDULERS[name](), trials, slots, failures=2, saving=saving, returning=returning)
    for _ in range(4000):
        if world.machine.is_finished():
            break
        world.turn(source.randrange(100), source.random(), source.random() < failing)
    assert world.machine.is_finished(), f"{name}: {[(str(t), t.status) for t in world.machine.trials]}"
    assert sorted(world.ended) == sorted(trial.trial_id for trial in world.machine.trials)
    assert len(world.machine.trials) == trials
    assert not world.due
    if not failing:
        assert {trial.status for trial in world.machine.trials} == {Trial.TERMINATED}
