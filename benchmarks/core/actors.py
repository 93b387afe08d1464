"""Actors: calls from the driver and between actors, tasks from inside one, and what one costs to create."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import batch_seconds, calls_per_second
from benchmarks.session import Figures, main, started

IN_FLIGHT = 3_000
FROM_INSIDE = 1_000
TEN = 10


def calls(target: str, full: bool) -> Figures:
    """Calls from the driver to one actor: one at a time, then 3,000 in flight."""
    with started(target) as ray:

        @ray.remote
        class Callee:
            def nothing(self) -> None:
                return None

        actor = Callee.remote()
        sync = calls_per_second(lambda: ray.get(actor.nothing.remote()))
        seconds = batch_seconds(lambda: ray.get([actor.nothing.remote() for _ in range(IN_FLIGHT)]))
    return {"actor_sync": sync, "actor_in_flight": IN_FLIGHT / seconds}


def from_inside(target: str, full: bool) -> Figures:
    """Measure an actor's own submissions: calls to another actor, and tasks, 1,000 in flight each."""
    with started(target) as ray:

        @ray.remote
        def task() -> None:
            return None

        @ray.remote
        class Callee:
            def nothing(self) -> None:
                return None

        @ray.remote
        class Caller:
            def call(self, callee: Any, count: int) -> None:
                ray.get([callee.nothing.remote() for _ in range(count)])

            def submit(self, count: int) -> None:
                ray.get([task.remote() for _ in range(count)])

        callee, caller = Callee.remote(), Caller.remote()
        call_s = batch_seconds(lambda: ray.get(caller.call.remote(callee, FROM_INSIDE)))
        submit_s = batch_seconds(lambda: ray.get(caller.submit.remote(FROM_INSIDE)))
    return {"actor_to_actor": FROM_INSIDE / call_s, "tasks_from_actor": FROM_INSIDE / submit_s}


def ten(target: str, full: bool) -> Figures:
    """Ten actors created and called once, until the last has answered; they are killed untimed."""
    with started(target) as ray:

        @ray.remote
        class Newcomer:
            def one(self) -> int:
                return 1

        actors: list[Any] = []

        def create() -> None:
            actors.extend(Newcomer.remote() for _ in range(TEN))
            ray.get([actor.one.remote() for actor in actors])

        def end() -> None:
            while actors:
                ray.kill(actors.pop())

        seconds = batch_seconds(create, warmups=0, least=2, most=15, after=end)
    return {"ten_actors": seconds}


if __name__ == "__main__":
    main(calls, from_inside, ten)
