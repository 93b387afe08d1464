"""Runs the machine of a run: starts workers, waits for their messages, executes the machine's actions."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import skate
from skate.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayTaskError,
)
from skate.train.backend import BackendConfig
from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig
from skate.train.controller import cluster
from skate.train.controller import machine as machines
from skate.train.controller.failures import causes_first, described, first_line, late, unreached
from skate.train.controller.group import WorkerGroup
from skate.train.controller.history import History
from skate.train.controller.machine import Machine
from skate.train.controller.observers import Observers
from skate.train.controller.preemptions import Preemptions
from skate.train.controller.validation import Validations
from skate.train.data_config import DataConfig
from skate.train.errors import (
    ControllerError,
    PreemptionError,
    PreemptionInfo,
    TrainingFailedError,
    WorkerGroupError,
)
from skate.train.modes import ValidationConfig
from skate.train.run_session import with_preload
from skate.train.storage.run_folder import RunFolder
from skate.train.worker.session import Announced, Session

#: After the first rank has failed, the others have this long to fail too, so that related failures are
#: reported together.
GRACE_SECONDS = 0.5
#: After this long, ranks that others wait for are logged, with their stacks.
LATE_SECONDS = float(os.environ.get("SKATE_TRAIN_LATE_SECONDS", "60"))
#: After this long, the run fails.
HUNG_SECONDS = float(os.environ.get("SKATE_TRAIN_HUNG_SECONDS", "1800"))
_LOOK_SECONDS = 1.0
_START_ERRORS = (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    ActorPlacementGroupRemoved,
    RayTaskError,
    OSError,
)


@dataclass
class Run:
    """The checked arguments of a run."""

    function: Callable[..., Any]
    config: Any
    scaling: ScalingConfig
    run_config: RunConfig
    backend: BackendConfig
    folder: RunFolder
    datasets: dict[str, Any]
    data_config: DataConfig
    validation: ValidationConfig | None = None
    resume_from: Checkpoint | None = None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.folder.name


class Controller:
    """Runs one call of `fit`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        assert run.run_config.failure_config is not None and run.run_config.checkpoint_config is not None
        self.machine = Machine(run.scaling, run.run_config.failure_config)
        self.history = History(run.folder, run.run_config.checkpoint_config)
        self.validations = Validations(run.validation, self.history)
        self.watchers = Observers(run)
        self.group: WorkerGroup | None = None
        self._next_start: machines.Start | None = None
        self._training: dict[Any, int] = {}
        self._messages: dict[Any, int] = {}
        self._logged_late: set[tuple[str, int]] = set()
        self._checked_capacity_at = 0.0
        #: Ranks that request checkpoints with their validations, each with the number of its question and its deadline.
        self._waiting_for_checkpoints: list[tuple[int, int, float]] = []
        #: The description of the last failure, and the nodes lost with it, with their ranks.
        self._text = ""
        self._lost: dict[str, list[int]] = {}
        self.preemptions = Preemptions()
        self._grace_s = run.run_config.failure_config.preemption_grace_s
        self.value: Any = None

    # -- the loop

    def execute(self) -> Any:
        """Run to the end; return the result of rank 0's training function.

        Raises:
            TrainingFailedError: the run has failed more often than it may.
        """
        self.run.folder.create()
        self.history.load()
        self.history.note(event="begin", run=self.run.name, pid=os.getpid())
        try:
            with self.watchers.whole_run(len(self.history.rows)):
                return self._execute()
        finally:
            self.history.close()

    def _execute(self) -> Any:
        try:
            cluster.check(self.run.scaling)
            self._do(self.machine.begin(self._capacity()))
            while self.machine.state not in (machines.FINISHED, machines.ERRORED):
                start, self._next_start = self._next_start, None
                if start is not None:
                    self._start(start)
                else:
                    self._wait()
            self.validations.finish()
            self.history.note(event="finished")
            return self.value
        finally:
            self._stop("the run has ended")
            self.history.close()

    def _do(self, actions: Sequence[machines.Action]) -> None:
        for action in actions:
            if isinstance(action, machines.Start):
                self._next_start = action
            elif isinstance(action, machines.Stop):
                self._stop(action.reason)
            elif isinstance(action, machines.Commit):
                self._commit(action)
            elif isinstance(action, machines.Release):
                self._meet(action)
            elif isinstance(action, machines.Finish):
                self.value = action.values[0]
                assert self.group is not None
                self.group.end_well()
            else:
                self._fail(action)

    # -- starting and stopping

    def _start(self, action: machines.Start) -> None:
        if action.delay:
            time.sleep(action.delay)
        run = self.run
        if cluster.await_capacity(run.scaling):
            self.machine.fit(self._capacity())
        workers = self.machine.workers
        self.history.note(event="start", attempt=action.attempt, workers=workers)
        self.watchers.progress.starting(action.attempt, workers)
        begun = time.monotonic()
        try:
            environment = with_preload(run.run_config.worker_runtime_env, run.backend.preload)
            self.group = group = WorkerGroup(workers, run.scaling, environment)
            if action.attempt > 1:
                self.history.recover()
            run.data_config._taken_cpus = workers * run.scaling.num_cpus_per_worker
            shards = run.data_config.configure(
                run.datasets, len(group), group.workers, [each["node"] for each in group.where]
            )
            stamp = f"{datetime.now():%Y-%m-%d_%H-%M-%S.%f}"
            latest = self.history.latest or run.resume_from
            sessions = [
                Session(place, run.folder, stamp, latest, shards[place.world_rank], run.config)
                for place in group.places
            ]
            # A program that has not imported datasets has no settings for them, and its workers need none.
            contexts = sys.modules.get("skate.data.context")
            for session in sessions:
                session.checkpoints = self.history.reported()
                session.data_context = contexts and contexts.DataContext.get_current()
            group.set_up(sessions, run.backend)
            self._training = {
                worker.train.remote(run.function, run.config, run.backend.train_func_context): rank
                for rank, worker in enumerate(group.workers)
            }
            self._messages = {worker.messages.remote(): rank for rank, worker in enumerate(group.workers)}
        except _START_ERRORS as error:
            self._start_failed(error)
            return
        actors = [worker._actor_id.hex() for worker in group.workers]
        self.watchers.figures.started(actors, time.monotonic() - begun)
        self.watchers.started(group.where)
        self._do(self.machine.started())

    def _start_failed(self, error: Exception) -> None:
        failure = self.machine.failure
        if isinstance(error, RayTaskError) and failure.controller_failure_limit < 0:
            # Errors in code, unlike missing resources, would occur again.
            self.machine.state = machines.ERRORED
            raise ControllerError(error) from error
        actions = self.machine.start_failed(error, self._capacity())
        again = [
            f"; trying again in {each.delay:.1f} s" for each in actions if isinstance(each, machines.Start)
        ]
        print(
            f"skate.train: cannot start the workers: {type(error).__name__}: {error}{''.join(again)}",
            file=sys.stderr,
            flush=True,
        )
        self._do(actions)

    def _stop(self, reason: str) -> None:
        self._training.clear()
        self._messages.clear()
        self._logged_late.clear()
        self._waiting_for_checkpoints.clear()
        group, self.group = self.group, None
        if group is not None:
            self.history.note(event="stop", reason=reason)
            begun = time.monotonic()
            group.close()
            self.watchers.figures.stopped(time.monotonic() - begun)
            self.watchers.figures.in_state(self.machine.state)

    def _capacity(self) -> int:
        """Return the number of workers for which the cluster has room now; at least the run's minimum."""
        return cluster.room(self.run.scaling, self.group.held if self.group is not None else {})

    # -- messages of workers

    def _wait(self) -> None:
        waiting = [*self._training, *self._messages]
        if self.validations.ref is not None:
            waiting.append(self.validations.ref)
        until = min((each for *_, each in self._waiting_for_checkpoints), default=float("inf"))
        seconds = max(0.0, min(_LOOK_SECONDS, until - time.monotonic()))
        ready, _ = skate.wait(waiting, num_returns=1, timeout=seconds)
        failures: list[tuple[int, Exception]] = []
        for ref in ready:
            if ref in self._messages:
                self._take_messages(ref, failures)
        for ref in ready:
            if ref in self._training:
                self._take_end(ref, failures)
        if failures:
            self._take_failures(failures)
        self.validations.look()
        self._answer_checkpoints()
        self._look()

    def _take_messages(self, ref: Any, failures: list[tuple[int, Exception]]) -> None:
        rank = self._messages.pop(ref)
        try:
            messages = skate.get(ref)
        except Exception:  # the worker is gone; its training call has the reason
            return
        assert self.group is not None
        self._messages[self.group.workers[rank].messages.remote()] = rank
        self._process(rank, messages, failures)

    def _process(self, rank: int, messages: Sequence[Any], failures: list[tuple[int, Exception]]) -> None:
        """Process the messages of a rank."""
        attempt, now = self.machine.attempt, time.monotonic()
        for _, kind, number, what in messages:
            if kind == "question":
                self._waiting_for_checkpoints.append(
                    (rank, number, float("inf") if what is None else now + what)
                )
                continue
            self.watchers.spans.arrived(rank, kind, number)
            is_relaxed = isinstance(what, Announced)
            arrive = partial(self.machine.arrived, rank, kind, number, what, now, is_relaxed)
            if not self._do_or_fail(rank, arrive, failures) or self.machine.attempt != attempt:
                return

    def _do_or_fail(
        self,
        rank: int,
        decide: Callable[[], Sequence[machines.Action]],
        failures: list[tuple[int, Exception]],
    ) -> bool:
        """Do what is decided; return False if a report cannot be processed, which fails only the run."""
        try:
            self._do(decide())
        except (OSError, ValueError) as error:
            failures.append((rank, error))
            return False
        return True

    def _take_end(self, ref: Any, failures: list[tuple[int, Exception]]) -> None:
        rank = self._training.pop(ref, None)
        if rank is None or self.group is None:
            return
        try:
            value = skate.get(ref)
        except Exception as error:  # the error of the training function or of the worker
            self._take_last_messages(rank, [])
            failures.append((rank, error))
            return
        before = len(failures)
        self._take_last_messages(rank, failures)
        if len(failures) == before:
            self._do(self.machine.finished(rank, value))

    def _take_last_messages(self, rank: int, failures: list[tuple[int, Exception]]) -> None:
        """Process the last messages of a rank before its end."""
        for ref in [ref for ref, owner in self._messages.items() if owner == rank]:
            del self._messages[ref]
            assert self.group is not None
            try:
                messages = [*skate.get(ref), *skate.get(self.group.workers[rank].messages.remote())]
            except (ActorDiedError, ActorUnavailableError):
                return
            self._process(rank, messages, failures)

    def _take_failures(self, failures: list[tuple[int, Exception]]) -> None:
        """Handle failed ranks: collect further failures, and the stacks of ranks that are stuck."""
        preempted = self._preempted(failures)
        deadline = time.monotonic() + GRACE_SECONDS + (self._grace_s if preempted else 0.0)
        if preempted:
            self._do_or_fail(0, lambda: self.machine.relax(preempted), failures)
        while self._training and (seconds := deadline - time.monotonic()) > 0:
            waiting = [*self._training, *(self._messages if preempted else ())]
            ready, _ = skate.wait(waiting, num_returns=1, timeout=seconds)
            for ref in ready:
                if ref in self._messages:
                    self._take_messages(ref, failures)
            for ref in ready:
                self._take_end(ref, failures)
        stuck = self._stacks(sorted(self._training.values()))
        self._lost = self._lost_nodes(failures)
        first = causes_first(failures)
        text = described(first, stuck, self.machine.workers)
        self.history.note(event="failure", ranks=[rank for rank, _ in first], error=text)
        self.watchers.callbacks.failed(first, text)
        self._text = text
        actions = self.machine.failed(first, self._capacity(), bool(self._lost))
        self.watchers.progress.failed(first_line(first), self.machine.state != machines.ERRORED)
        self._do(actions)

    def _preempted(self, failures: Sequence[tuple[int, Exception]]) -> list[int]:
        """Return the ranks that were lost with a node as announced: the others may continue for a while."""
        assert self.group is not None
        where = self.group.where
        lost = [rank for rank, error in failures if isinstance(error, ActorDiedError)]
        return [rank for rank in lost if self.preemptions.includes(where[rank]["node"])]

    def _lost_nodes(self, failures: Sequence[tuple[int, Exception]]) -> dict[str, list[int]]:
        """Return the dead nodes with their ranks; failures of other ranks are then consequences."""
        if not any(isinstance(error, ActorDiedError) for _, error in failures):
            return {}
        alive = {node["NodeID"] for node in skate.nodes() if node["Alive"]}
        assert self.group is not None
        found: dict[str, list[int]] = {}
        for rank, error in sorted(failures, key=lambda each: each[0]):
            node = self.group.where[rank]["node"]
            if isinstance(error, ActorDiedError) and node not in alive:
                found.setdefault(node, []).append(rank)
        return found

    def _stacks(self, ranks: Sequence[int]) -> dict[int, str]:
        """Return the stacks of the ranks that answer within a second."""
        if self.group is None:
            return {}
        pending = {rank: self.group.workers[rank].stack.remote() for rank in ranks}
        found = {}
        until = time.monotonic() + 1.0
        for rank, ref in pending.items():
            try:
                found[rank] = skate.get(ref, timeout=max(0.0, until - time.monotonic()))
            except (GetTimeoutError, ActorDiedError, ActorUnavailableError, RayTaskError):
                found[rank] = ""
        return found

    # -- sync points

    def _commit(self, action: machines.Commit) -> None:
        assert self.group is not None
        checkpoint = self.history.take(action.reports, self.machine.attempt)
        requested = next(each.validation for each in action.reports if each is not None)
        if checkpoint is not None and requested:
            self.validations.add(self.history.kept[-1].name, checkpoint, requested)
        self.watchers.reported(action.number, action.reports, checkpoint)
        checkpoints = (
            (self.history.latest or self.run.resume_from, self.history.reported())
            if checkpoint is not None
            else None
        )
        for worker in self.group.workers:
            worker.release.remote("report", action.number, checkpoints)

    def _meet(self, action: machines.Release) -> None:
        assert self.group is not None
        self.watchers.spans.released("collective", action.number)
        value = action.value
        if isinstance(value, Announced):
            value = self.preemptions.announced(self.group.where)
        for worker in self.group.workers:
            worker.release.remote("collective", action.number, value)

    def _answer_checkpoints(self) -> None:
        if not self._waiting_for_checkpoints or self.group is None:
            return
        now, still = time.monotonic(), []
        for rank, number, until in self._waiting_for_checkpoints:
            if self.validations.open and now < until:
                still.append((rank, number, until))
            else:
                self.group.workers[rank].release.remote("question", number, self.history.reported())
        self._waiting_for_checkpoints = still

    # -- the clock

    def _look(self) -> None:
        """Log late ranks, fail the run for ranks that will never arrive, and look for room if the run may grow."""
        now = time.monotonic()
        self.watchers.progress.look()
        failure = self.machine.failure
        if failure.preemption_grace_s or failure.relax_collectives_on_preemption:
            self.preemptions.look()
        if self.machine.state != machines.RUNNING:
            return
        for sync_point, missing in self.machine.unreachable_sync_points():
            self._take_failures([(missing[0], RuntimeError(unreached(sync_point, missing)))])
            return
        for sync_point, missing in self.machine.late(now, LATE_SECONDS):
            key = (sync_point.kind, sync_point.number)
            hung = now - sync_point.since >= HUNG_SECONDS
            if key in self._logged_late and not hung:
                continue
            self._logged_late.add(key)
            text = late(sync_point, missing, now - sync_point.since, self._stacks(missing))
            if hung:
                self._take_failures([(missing[0], TimeoutError(text))])
                return
            print(f"skate.train: {text}", file=sys.stderr, flush=True)
        scaling = self.run.scaling
        if (
            scaling.elasticity_enabled
            and now - self._checked_capacity_at >= scaling.elastic_resize_monitor_interval_s
        ):
            if self._checked_capacity_at:
                self._do(self.machine.capacity_found(self._capacity()))
            self._checked_capacity_at = now

    # -- the end

    def _fail(self, action: machines.Fail) -> None:
        self.history.note(event="errored")
        first = next(iter(action.failures.values()))
        error: TrainingFailedError
        if action.kind == "start":
            error = ControllerError(first)
        elif action.kind == "preemption":
            error = PreemptionError(PreemptionInfo(None, self._lost))
        else:
            error = WorkerGroupError(self._text, action.failures)
        raise error from first
