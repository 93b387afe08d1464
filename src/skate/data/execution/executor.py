"""The loop of a running plan: blocks move along, work is started and waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from skate.data.context import DataContext
from skate.data.execution import policy
from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import LimitRunning, Running, Work
from skate.data.execution.runner import LOCAL_BYTES, LOCAL_SECONDS, Event, LocalRunner, RemoteRunner


class Topology:
    """The operators of a plan in order, and where the results of each go."""

    def __init__(self) -> None:
        self.operators: list[Running] = []
        self.targets: dict[int, tuple[Running, int]] = {}
        self.sources: dict[int, list[Running]] = {}

    def add(self, operator: Running, inputs: Sequence[Running] = ()) -> Running:
        """Enter an operator behind its inputs."""
        self.operators.append(operator)
        self.sources[id(operator)] = list(inputs)
        for number, each in enumerate(inputs):
            self.targets[id(each)] = (operator, number)
        return operator

    @property
    def last(self) -> Running:
        """The operator whose results are those of the plan."""
        return self.operators[-1]

    def before(self, operator: Running) -> Iterator[Running]:
        """All operators that an operator gets its blocks from, near ones first."""
        for each in self.sources[id(operator)]:
            yield each
            yield from self.before(each)


class Executor:
    """One run of a plan."""

    def __init__(self, topology: Topology, context: DataContext) -> None:
        self.topology = topology
        self.context = context
        self.local = LocalRunner()
        self.remote: RemoteRunner | None = None
        self.started = time.perf_counter()
        self.seconds = 0.0
        self.errors = 0
        self.cancelled = False
        self._ended: set[int] = set()
        self._limits: policy.Limits | None = None

    def run(self) -> Iterator[Bundle]:
        """The blocks of the plan, in order, as they come."""
        try:
            last = self.topology.last
            while True:
                self._move()
                while last.outputs.ready:
                    yield last.outputs.pop()
                if last.finished or self.cancelled:
                    return
                if not self._start_some():
                    self._wait()
        finally:
            self.seconds = time.perf_counter() - self.started
            self.close()

    def cancel(self) -> None:
        """End the run from another thread, at its next step."""
        self.cancelled = True

    def close(self) -> None:
        """End what is under way."""
        self.local.close()
        if self.remote is not None:
            self.remote.close()

    # -- blocks

    def _move(self) -> None:
        """Give every result that is ready to the operator that wants it."""
        for operator in self.topology.operators:
            target = self.topology.targets.get(id(operator))
            if target is None:
                continue
            taker, number = target
            outputs = operator.outputs
            while outputs.ready and not taker.stopped:
                taker.take(outputs.pop(), number)
                if isinstance(taker, LimitRunning) and taker.full:
                    self._stop_before(taker)
            if operator.finished and id(operator) not in self._ended:
                self._ended.add(id(operator))
                taker.end(number)

    def _stop_before(self, taker: Running) -> None:
        for operator in self.topology.before(taker):
            if not operator.stopped:
                operator.stop()
                if self.remote is not None:
                    self.remote.stop(operator)

    # -- work

    def _start_some(self) -> bool:
        """Start what may be started; True if anything was."""
        started = False
        while not self.local.busy:
            operators = [op for op in self.topology.operators if self._has_room(op)]
            operator = policy.choose(operators, self._limits_now())
            if operator is None:
                break
            work = operator.next_work()
            if self._is_for_here(work):
                self.local.start(work)
            else:
                self._remote().start(work)
            started = True
        return started

    def _has_room(self, operator: Running) -> bool:
        if operator.compute.actors is None or not operator.has_work():
            return True
        return self._remote().room(operator)

    def _remote(self) -> RemoteRunner:
        if self.remote is None:
            self.remote = RemoteRunner()
        return self.remote

    def _limits_now(self) -> policy.Limits:
        if self.remote is None:
            return policy.Limits(LOCAL_BYTES, 1 << 30)
        if self._limits is None:
            self._limits = self.context.limits()
        return self._limits

    def _is_for_here(self, work: Work) -> bool:
        """Whether a piece of work runs in this process: small, asking for nothing, and all before it was quick."""
        if not self.context.run_small_work_in_driver or not work.operator.compute.plain:
            return False
        if self.remote is not None and self.remote.busy:
            return False
        if work.bytes > LOCAL_BYTES or any(
            isinstance(each, Bundle) and not each.here for each in work.bundles
        ):
            return False
        estimates = [getattr(each, "bytes", 0) or 0 for each in work.bundles if not isinstance(each, Bundle)]
        return sum(estimates) <= LOCAL_BYTES and self.local.seconds < LOCAL_SECONDS

    def _wait(self) -> None:
        if self.local.busy:
            events = self.local.events()
        elif self.remote is not None and self.remote.busy:
            events = self.remote.events()
        else:
            stuck = [operator for operator in self.topology.operators if not operator.finished]
            raise RuntimeError(f"the plan has come to a halt with nothing under way: {stuck}")
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        what, work, value = event
        operator = work.operator
        if operator.stopped:
            if what != "block":
                operator.running = max(0, operator.running - 1)
            return
        if what == "block":
            operator.give(work, value)
        elif what == "done":
            operator.done(work, value)
        else:
            self._failed(work, value)

    def _failed(self, work: Work, error: Exception) -> None:
        allowed: Any = self.context.max_errored_blocks
        if work.kind == "chain" and (allowed < 0 or self.errors < allowed):
            self.errors += 1
            work.operator.done(work)
            return
        raise error
