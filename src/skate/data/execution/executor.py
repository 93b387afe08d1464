"""The loop of a running plan: moves blocks along, starts work and waits for it.

It waits only for things in progress: results of work, actors that start. If there is nothing to wait for and
nothing to start, and the plan has not ended, it raises an error that names the operators instead of hanging.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from skate.data.context import DataContext
from skate.data.exceptions import ExecutionTimeoutError, as_user_code
from skate.data.execution import policy, run_figures, run_state
from skate.data.execution.bundle import Bundle
from skate.data.execution.exchange_operator import ExchangeRunning
from skate.data.execution.limits import Limits
from skate.data.execution.local import LOCAL_BYTES, Event, LocalRunner
from skate.data.execution.operators import Running, Work
from skate.data.execution.progress import progress_of
from skate.data.execution.stats import report
from skate.data.execution.stats_summary import collect
from skate.data.execution.topology import Topology
from skate.data.relational.stage_operator import STAGE, RelationalRunning

#: Longer than any run; some timers do not accept infinity.
_FOREVER = 1e8
#: How often progress lines are updated while waiting for workers.
_LOOK_SECONDS = 0.2


class Executor:
    """One run of a plan."""

    def __init__(self, topology: Topology, context: DataContext, name: str | None = None) -> None:
        self.topology = topology
        self.context = context
        self.local = LocalRunner()
        self.remote: Any = None
        self.started = time.perf_counter()
        self.seconds = 0.0
        self.errors = 0
        self.first_error: Exception | None = None
        self.cancelled = False
        self._ended: set[int] = set()
        self._no_progress_s = _no_progress_limit(topology, context)
        self._moved_at = time.monotonic()
        self.limits = Limits(LOCAL_BYTES, 1 << 30)
        self._name = name
        #: The operators with results that the current wait may read.
        self._read: set[int] = set()
        #: The label of its metrics.
        self.label = run_figures.label_of(name)
        self._progress = progress_of(topology, context, name)
        #: The seconds of the last pass of the loop, without its wait.
        self.pass_seconds = 0.0
        #: The resources of the cluster, once work runs there.
        self._totals: dict[str, float] = {}

    def run(self) -> Iterator[Bundle]:
        """Yield the blocks of the plan, in order."""
        figures = run_figures.begin(self)
        announcement = run_state.begin(self, self._name)
        try:
            last = self.topology.last
            while not self.cancelled:
                begun = time.perf_counter()
                self._move()
                if self._progress is not None:
                    self._progress.look()
                while last.outputs.ready:
                    yield self._taken(last)
                    begun = time.perf_counter()
                    self._moved_at = time.monotonic()
                if last.finished:
                    return
                if not self._start_some():
                    self.pass_seconds = time.perf_counter() - begun
                    self._wait()
        finally:
            self.seconds = time.perf_counter() - self.started
            figures.ended()
            announcement.end(error=run_state.error_now())
            self.close()
            if self.context.enable_stats_summary_collection or self.context.enable_auto_log_stats:
                collect(self, self._name)

    def cancel(self) -> None:
        """Cancel the run from another thread: ends running work and the loop."""
        self.cancelled = True
        for operator in self.topology.operators:
            if isinstance(operator, RelationalRunning):
                operator.interrupt()
        if self.remote is not None:
            self.remote.interrupt()

    def close(self) -> None:
        """Stop all work in progress."""
        if self._progress is not None:
            self._progress.close()
        self.local.close()
        if self.remote is not None:
            self.remote.close()

    def report(self) -> str:
        """Return statistics of the run so far, by operator."""
        seconds = self.seconds or time.perf_counter() - self.started
        return report(self.topology.operators, seconds, self.errors)

    def budgets(self) -> dict[str, float]:
        """Return the amounts of GPUs and memory that an operator may use."""
        return {
            "gpu_budget": self._totals.get("GPU", 0.0),
            "memory_budget": self._totals.get("memory", 0.0),
        }

    # -- blocks

    def _move(self) -> None:
        """Pass every available result to the operator that consumes it."""
        for operator in self.topology.operators:
            target = self.topology.target_of(operator)
            if target is None:
                continue
            taker, number = target
            outputs = operator.outputs
            while outputs.ready and not taker.stopped:
                bundle = self._taken(operator)
                taker.counters.received.add(1, bundle.bytes)
                taker.take(bundle, number)
                if taker.full:
                    self._stop_before(taker)
            if operator.finished and id(operator) not in self._ended:
                self._ended.add(id(operator))
                self._finish(operator)
                if not taker.stopped:
                    taker.end(number)
                    if taker.full:
                        self._stop_before(taker)

    def _taken(self, operator: Running) -> Bundle:
        """Take the next result of an operator."""
        bundle = operator.outputs.pop()
        operator.counters.taken.add(1, bundle.bytes)
        return bundle

    def _stop_before(self, taker: Running) -> None:
        for operator in self.topology.before(taker):
            if not operator.stopped:
                operator.stop()
                self._finish(operator)

    def _finish(self, operator: Running) -> None:
        if self.remote is not None:
            self.remote.finish(operator)
        operator.running = 0

    # -- work

    def _start_some(self) -> bool:
        """Start all work that may start; return True if any was started."""
        started = False
        while not self.local.busy and not self.cancelled:
            operator = next(filter(self._has_room, policy.choose(self.topology, self.limits)), None)
            if operator is None:
                break
            work = operator.next_work()
            operator.counters.begun.add(len(work.bundles), work.bytes)
            if self._is_for_here(work):
                self.local.start(work)
            else:
                self._remote().start(work)
            started = True
        return started

    def _has_room(self, operator: Running) -> bool:
        return operator.compute.actors is None or bool(self._remote().room(operator))

    def _remote(self) -> Any:
        if self.remote is None:
            import skate  # a plan that runs only in this process needs no session
            from skate.data.execution.remote import RemoteRunner

            if not skate.is_initialized():
                skate.init()
            self.limits = self.context.limits()
            self._totals = totals = skate.cluster_resources()
            totals["CPU"] = totals.get("CPU", 0.0) - self.context.execution_options._unavailable_cpus
            self.remote = RemoteRunner(self.topology.operators, totals)
            if self.context.wait_for_min_actors_s > 0:
                self.remote.await_pools(self.context.wait_for_min_actors_s)
        return self.remote

    def _is_for_here(self, work: Work) -> bool:
        """True if a piece of work runs in this process: small, without resource requests, and earlier work here
        was quick.
        """
        if work.kind == STAGE:
            return True
        if not self.context.run_small_work_in_driver or (self.remote is not None and self.remote.busy):
            return False
        return self.local.takes(work)

    def _wait(self) -> None:
        held_back = [operator for operator in self.topology.operators if operator.has_work()]
        self._read.clear()
        begun = time.perf_counter()
        self._take_events()
        waited = time.perf_counter() - begun
        for operator in held_back:
            operator.counters.held_back_s += waited
        if not self.local.busy:
            for operator in self.topology.operators:
                if operator.running and id(operator) not in self._read:
                    operator.counters.unread_s += waited

    def _take_events(self) -> None:
        """Wait for the next events, and process them."""
        events: list[Event] | None
        if self.local.busy:
            events = self.local.events()
        else:
            events = None if self.remote is None else self._events_of_workers()
            if events is None:
                if self.cancelled:
                    return
                stuck = [operator for operator in self.topology.operators if not operator.finished]
                raise RuntimeError(
                    f"the plan is stuck with nothing to wait for: {stuck}; this is a bug in Skate"
                )
        for event in events:
            self._take(event)

    def _events_of_workers(self) -> list[Event] | None:
        """Wait for the next events of workers. Raises ExecutionTimeoutError if none occurs for too long."""
        limit_s = self._no_progress_s
        found: list[Event] | None = self.remote.events(
            self._readable, min(limit_s, _LOOK_SECONDS) if self._progress is not None else limit_s
        )
        now = time.monotonic()
        if found:
            self._moved_at = now
        elif found is not None and not self.cancelled and now - self._moved_at >= limit_s:
            waiting = [operator.name for operator in self.topology.operators if operator.running]
            raise ExecutionTimeoutError(
                f"no results from {', '.join(waiting)} for {limit_s:g} s; the limit is "
                "DataContext.execution_no_progress_timeout_s (-1 for no limit)"
            )
        return found

    def _readable(self, work: Work) -> bool:
        found = policy.readable(work.operator, work.sequence, self.topology, self.limits)
        if found:
            self._read.add(id(work.operator))
        return found

    def _take(self, event: Event) -> None:
        what, work, value = event
        operator = work.operator
        if operator.stopped:
            return
        if what == "block":
            work.blocks += 1
            operator.counters.with_results += work.blocks == 1
            operator.counters.seconds_of_blocks.append(work.seconds - work.counted_s)
            work.counted_s = work.seconds
            operator.give(work, value)
        elif what == "done":
            operator.counters.processed.add(len(work.bundles), work.bytes)
            operator.done(work, value)
        else:
            self._failed(work, value)

    def _failed(self, work: Work, error: BaseException) -> None:
        work.operator.counters.failed += 1
        allowed: Any = self.context.max_errored_blocks
        if self.cancelled:
            return
        if work.kind == "chain" and isinstance(error, Exception) and (allowed < 0 or self.errors < allowed):
            self.errors += 1
            self.first_error = self.first_error or error
            work.operator.done(work)
            return
        raise as_user_code(error, work.operator.name)


def _no_progress_limit(topology: Topology, context: DataContext) -> float:
    """Return how many seconds a run may wait for its workers; exchanges may take long before their first result."""
    timeout = context.execution_no_progress_timeout_s
    without_end = timeout < 0 or any(isinstance(each, ExchangeRunning) for each in topology.operators)
    return _FOREVER if without_end else timeout
