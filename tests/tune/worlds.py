"""Searches with everything real but the processes: their steps come in an order that a test draws, and the program can be ended
between any two commands."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate.exceptions import ActorDiedError
from skate.tune.execution import controller as controllers
from skate.tune.execution import launch
from skate.tune.experiment.trial import Trial
from skate.tune.journal.journal import ExperimentJournal, all_entries
from skate.tune.journal.replay import Replay
from skate.tune.schedulers.async_hyperband import AsyncHyperBandScheduler
from skate.tune.schedulers.hyperband import HyperBandScheduler
from skate.tune.schedulers.median_stopping_rule import MedianStoppingRule
from skate.tune.schedulers.pbt import PopulationBasedTraining
from skate.tune.schedulers.trial_scheduler import FIFOScheduler
from skate.tune.search import Searcher
from skate.tune.tuner import folder_of

LENGTH = 6

SCHEDULERS = {
    "fifo": FIFOScheduler,
    "asha": lambda: AsyncHyperBandScheduler(max_t=4, reduction_factor=2),
    "hyperband": lambda: HyperBandScheduler(max_t=4, reduction_factor=2),
    "median": lambda: MedianStoppingRule(
        time_attr="training_iteration", grace_period=1, min_samples_required=1
    ),
    "median, pausing": lambda: MedianStoppingRule(
        time_attr="training_iteration", grace_period=1, min_samples_required=1, hard_stop=False
    ),
    "pbt": lambda: PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"lr": [1, 2]}
    ),
    "pbt, together": lambda: PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": [1, 2]},
        synch=True,
    ),
}


class Crash(BaseException):
    """The simulated end of the program, at any point."""


def function(config: dict[str, Any]) -> None:
    """Never called: the world steps in its place."""


class Stepping(tune.Trainable):
    """A class for the same."""


class Recording(Searcher):
    """Suggests numbers, and records results."""

    def __init__(self) -> None:
        super().__init__()
        self.suggested: list[str] = []
        self.results: list[tuple[str, int]] = []
        self.completed: list[str] = []

    def suggest(self, trial_id: str) -> Any:
        self.suggested.append(trial_id)
        return {"n": len(self.suggested) - 1, "lr": 1}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.results.append((trial_id, result["training_iteration"]))

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.completed.append(trial_id)

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_bytes(pickle.dumps((self.suggested, self.results, self.completed)))

    def restore(self, checkpoint_path: str) -> None:
        self.suggested, self.results, self.completed = pickle.loads(Path(checkpoint_path).read_bytes())


class Ref:
    """An answer that has not come yet."""

    def __init__(self, actor: Actor, call: Callable[[], Any]) -> None:
        self.actor, self.call = actor, call


class Method:
    """A method of an actor: a call of it is in a queue until the world takes it."""

    def __init__(self, actor: Actor, call: Callable[..., Any]) -> None:
        self._actor, self._call = actor, call

    def remote(self, *given: Any) -> Ref:
        ref = Ref(self._actor, lambda: self._call(*given))
        self._actor.queue.append(ref)
        return ref


class Actor:
    """A trial's process."""

    def __init__(self, world: World, trial: Trial, spec: Any) -> None:
        self.world, self.queue, self.dead = world, [], False
        self._take(trial.trial_id, spec)

    def _take(self, trial_id: str, spec: Any) -> None:
        self.trial_id, self.spec, self.at = trial_id, spec, spec.iteration
        self.next_checkpoint = spec.next_checkpoint
        if spec.checkpoint is not None:
            steps = int(Path(spec.checkpoint.path, "steps").read_text())
            assert steps == spec.iteration, "a trial continues from where its checkpoint had come"

    def __getattr__(self, name: str) -> Method:
        return Method(self, {"advance": self._advance, "save": self._save, "end": lambda: None}[name])

    def _advance(self) -> dict[str, Any]:
        world = self.world
        if world.random.random() < world.failing:
            raise ValueError("asked to")
        if world.random.random() < world.losing:
            raise ActorDiedError("its process is gone")
        if self.at >= LENGTH and not world.can_save:
            return {"done": True, "__duplicate__": True}
        self.at += 1
        world.ran.append((self.trial_id, self.at))
        result: dict[str, Any] = {
            "m": world.random.random(), "trial_id": self.trial_id, "training_iteration": self.at, "time_total_s": float(self.at),
            "done": world.can_save and self.at >= LENGTH,
        }  # fmt: skip
        if world.saving and (not world.can_save or self.at % 4 == 0):
            result["__saved__" if world.can_save else "checkpoint_dir_name"] = self._save()
        return result

    def _save(self) -> str:
        name = f"checkpoint_{self.next_checkpoint:06d}"
        self.next_checkpoint += 1
        gathering = self.spec.folder._gathering(name)
        os.makedirs(gathering, exist_ok=True)
        Path(gathering, "steps").write_text(str(self.at))
        return name


class Processes:
    """Starts actors of the world."""

    def __init__(self, world: World) -> None:
        self.reuse, self.world = False, world

    def start(self, trial: Trial, spec: Any) -> Any:
        actor = Actor(self.world, trial, spec)
        self.world.actors.append(actor)
        return controllers.Process(actor, None, (None, trial.placement_group_factory))

    def end(self, process: Any) -> None:
        process.actor.dead = True
        self.world.actors.remove(process.actor)

    def close(self) -> None:
        """Nothing is kept."""


@dataclass
class Shape:
    """The shape of a search."""

    trials: int = 4
    cpus: int = 2
    #: Whether trials report checkpoints; classes are saved by the search.
    saving: bool = True
    can_save: bool = False
    #: How often a step raises, and how often its process is lost.
    failing: float = 0.0
    losing: float = 0.0
    failures: int = 0
    keep: int | None = 2
    #: Entries between snapshots, and how often the journal is read in between.
    entries: int = 2000
    replaying: float = 0.2


class World(Shape):
    """The search of a test, and its outcome."""

    def __init__(
        self,
        folder: Path,
        scheduler: Callable[[], Any],
        seed: int,
        shape: Mapping[str, Any],
        searcher: Any = None,
    ) -> None:
        super().__init__(**shape)
        self.folder, self.scheduler, self.searcher = folder, scheduler, searcher
        self.random = random.Random(seed)
        self.actors: list[Actor] = []
        self.ran: list[tuple[str, int]] = []
        self.ticks = 0
        self.crash_at = -1
        self.turns = 0
        self.machine: Any = None

    # -- what stands for skate in the controller

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(self.cpus)}}]

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        self.turns += 1
        assert self.turns < 20_000, "the search comes to an end"
        first = [ref for ref in refs if not any(other in refs for other in _before(ref))]
        chosen = self.random.choice(first)
        return [chosen], [ref for ref in refs if ref is not chosen]

    def get(self, ref: Ref) -> Any:
        ref.actor.queue.remove(ref)
        return ref.call()

    # -- run

    def tick(self) -> None:
        self.ticks += 1
        if self.ticks == self.crash_at:
            raise Crash

    def tuner(self) -> tune.Tuner:
        space = None if self.searcher else {"n": tune.grid_search([*range(self.trials)]), "lr": 1}
        return tune.Tuner(
            Stepping if self.can_save else function,
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="m", mode="max", scheduler=self.scheduler(), search_alg=self.searcher,
                num_samples=self.trials if self.searcher else 1,
            ),
            run_config=tune.RunConfig(
                name="search",
                storage_path=str(self.folder),
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=self.failures),
                checkpoint_config=tune.CheckpointConfig(
                    num_to_keep=self.keep,
                    checkpoint_at_end=True if self.can_save else None,
                    checkpoint_frequency=4 if self.can_save and self.saving else 0,
                ),
            ),
        )  # fmt: skip

    def fit(self, crash_at: int = -1) -> tune.ResultGrid | None:
        """Run, or continue, to the end or the crash; None after a crash."""
        self.ticks, self.crash_at = 0, crash_at
        self.actors.clear()
        self.turns = 0
        path = str(self.folder / "search")
        trainable = Stepping if self.can_save else function
        with patched(self):
            try:
                begun = (self.folder / "search" / "tuner.pkl").exists()
                known = begun and any((self.folder / "search").glob("experiment_state-*"))
                return (tune.Tuner.restore(path, trainable) if known else self.tuner()).fit()
            except Crash:
                return None

    def check(self, controller: Any) -> None:
        """Check after any batch of commands: held resources match running trials, and the journal matches the
        machine."""
        held = controller.capacity.held.get("CPU", 0.0)
        assert held == len(self.actors) <= self.cpus
        if self.random.random() < self.replaying and controller.machine.is_settled():
            replay = Replay(folder_of(self.folder / "search"))
            replay.run()
            doomed = controller.machine._pins.doomed  # kept for as long as another trial starts from them
            for trial in replay.trials:
                trial.kept = [each for each in trial.kept if (trial.trial_id, each.name) not in doomed]
            for found, expected in zip(replay.trials, controller.machine.trials, strict=True):
                assert seen(found) == seen(expected), unlike(seen(found), seen(expected))

    def check_end(self) -> None:
        """No trial was lost, none was made or has ended twice, all that is kept is there."""
        entries = list(all_entries(folder_of(self.folder / "search")))
        made = Counter(entry["id"] for entry in entries if entry["e"] == "trial")
        ended = Counter(entry["id"] for entry in entries if entry["e"] == "end")
        trials = self.machine.trials
        assert {trial.status for trial in trials} <= (
            {Trial.TERMINATED, Trial.ERROR} if self.failing or self.losing else {Trial.TERMINATED}
        )
        assert made == ended == {trial.trial_id: 1 for trial in trials}
        assert sorted(trial.config["n"] for trial in trials if trial.config["n"] is not None) or not trials
        assert len(trials) == self.trials
        if "PopulationBased" not in type(self.machine.scheduler_alg).__name__:
            assert sorted(trial.config["n"] for trial in trials) == [*range(self.trials)]
        for trial in trials:
            own = [entry for entry in entries if entry["id"] == trial.trial_id]
            check_order(own)
            for kept in trial.kept:
                assert Path(trial.folder.path, kept.name, "steps").exists(), (
                    "a checkpoint that is kept is there"
                )
            if self.can_save and trial.status == Trial.TERMINATED and trial.results:
                steps = int(Path(trial.folder.path, trial.latest.name, "steps").read_text())
                assert steps == trial.last_result["training_iteration"], "a class is saved at its end"
        searcher = getattr(self.machine.search_alg, "searcher", None)
        if searcher is not None:
            reported = [entry for entry in entries if entry["e"] == "result" and not entry.get("f")]
            assert Counter(searcher.completed) == ended
            assert sorted(searcher.results) == sorted(
                (e["id"], e["r"]["training_iteration"]) for e in reported
            )


def _before(ref: Ref) -> list[Ref]:
    queue = ref.actor.queue
    return queue[: queue.index(ref)]


def check_order(entries: list[dict[str, Any]]) -> None:
    """Results of one start follow each other, and nothing comes after the end but what belongs to it."""
    at: int | None = None
    over = False
    for entry in entries:
        if entry["e"] == "end":
            over = True
        elif entry["e"] == "start":
            assert not over, "what has ended does not run again"
            at = None
        elif entry["e"] == "result":
            found = entry["r"]["training_iteration"]
            assert at is None or found == at + 1, "reports come in order"
            at = found


def unlike(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Where the journal and the machine do not agree."""
    return "; ".join(
        f"{name}: {found[name]} in the journal, {expected[name]}"
        for name in expected
        if found[name] != expected[name]
    )


def seen(trial: Trial) -> dict[str, Any]:
    """The facts about a trial that a journal must preserve."""
    status = Trial.PENDING if trial.status == Trial.PAUSED else trial.status
    source = trial.source
    if source is not None and trial.latest is not None and source.name == trial.latest.name:
        if source.trial_id == trial.trial_id:
            source = None  # where it continues anyway
    # Which configuration a result was of is the trial's own: a snapshot has it once.
    last = {
        name: value for name, value in trial.last_result.items() if value is not None and name != "config"
    }
    found = {
        "id": trial.trial_id, "config": trial.config, "tag": trial.experiment_tag, "status": status,
        "results": trial.results, "last": last, "failures": trial.num_failures,
        "next": trial.next_checkpoint, "error": trial.error_text, "dir": trial.relative_logdir,
        "kept": [[each.name, each.index] for each in trial.kept],
        "source": None if source is None else [source.trial_id, source.name, source.iteration],
        "histories": {name: each.state() for name, each in trial.histories.by_name.items()},
    }  # fmt: skip
    return dict(json.loads(json.dumps(found)))


@contextmanager
def patched(world: World) -> Any:
    """The controller has the world in place of a cluster, and ticks at each command."""

    class Walked(controllers.Controller):
        def execute(self) -> None:
            world.machine = self.machine
            super().execute()

        def _do(self, given: Any) -> None:
            for command in given:
                world.tick()
                super()._do([command])
            world.check(self)

    take, forget = ExperimentJournal.take_snapshot, ExperimentJournal._forget

    def taking(self: ExperimentJournal) -> None:
        world.tick()
        take(self)

    def forgetting(self: ExperimentJournal, before: int) -> None:
        world.tick()
        forget(self, before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        patch.setattr(launch, "ensure_session", lambda preload: None)
        patch.setattr(launch, "Controller", Walked)
        patch.setattr(controllers, "skate", world)
        patch.setattr(controllers, "Processes", lambda *given: Processes(world))
        patch.setattr("skate.tune.journal.journal.ENTRIES", world.entries)
        patch.setattr(ExperimentJournal, "take_snapshot", taking)
        patch.setattr(ExperimentJournal, "_forget", forgetting)
        yield
