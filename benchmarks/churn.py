"""The steps that a soak repeats: each uses one part of the engine, checks the result and releases it.

A step takes the `Churn`, whose random numbers all come from one seed, and may keep a ref or an actor there for a while; what is
kept is bounded, and let go of as a whole when the soak looks for leaks.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy

import skate as ray

KEPT_MAX = 40
MIB = 1 << 20


class Expected(Exception):
    """The intended error of a failing task."""


@ray.remote
def plus(x: int, y: int = 1) -> int:
    return x + y


@ray.remote
def nested(depth: int) -> int:
    return 0 if depth == 0 else 1 + ray.get(nested.remote(depth - 1))


@ray.remote
def total(array: Any) -> int:
    return int(array.sum())


@ray.remote
def make(size: int, fill: int) -> Any:
    return numpy.full(size, fill, dtype=numpy.uint8)


@ray.remote
def gather(refs: list[Any]) -> list[Any]:
    return ray.get(refs)


@ray.remote
def wrap(refs: list[Any]) -> list[Any]:
    return [*refs, ray.put(len(refs))]


@ray.remote(max_retries=3, retry_exceptions=[Expected])
def fails_sometimes(seed: int, attempts: int) -> int:
    if random.Random(f"{seed} {os.getpid()} {time.monotonic_ns()}").random() < 0.5:
        raise Expected(f"{seed} of {attempts}")
    return seed


@ray.remote(max_retries=0)
def dies(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


@ray.remote(max_retries=20)
def sleeps(seconds: float, path: str = "") -> float:
    if path:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
    time.sleep(seconds)
    return seconds


@ray.remote
def numbers(count: int, size: int) -> Any:
    for n in range(count):
        yield n if not size else numpy.full(size, n % 256, dtype=numpy.uint8)


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.n = start
        self.kept: Any = None

    def add(self, by: int = 1) -> int:
        self.n += by
        return self.n

    def keep(self, value: Any) -> int:
        self.kept = value
        return len(value)

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@ray.remote(num_cpus=0)
class Async:
    async def twice(self, x: int) -> int:
        return 2 * x


class Churn:
    """The steps, what they keep, and the random numbers that they use."""

    def __init__(self, seed: int, folder: str) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.kept: list[Any] = []
        self.count = 0
        self.done: dict[str, int] = {}

    def step(self) -> None:
        """One random step."""
        name, call = self.random.choices(STEPS, WEIGHTS)[0]
        self.count += 1
        call(self)
        self.done[name] = self.done.get(name, 0) + 1
        while len(self.kept) > KEPT_MAX:
            self.kept.pop(self.random.randrange(len(self.kept)))

    def keep(self, what: Any) -> None:
        """Hold something for a while."""
        self.kept.append(what)


def check(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r:.200} came back where {wanted!r:.200} was due")


def errors(ref: Any, *kinds: type[BaseException]) -> None:
    """The ref must end in one of these errors."""
    try:
        ray.get(ref, timeout=60)
    except kinds:
        return
    raise AssertionError(f"none of {kinds} came of {ref}")


def tasks(c: Churn) -> None:
    count = c.random.randint(1, 60)
    refs = [plus.remote(n, c.count) for n in range(count)]
    check(ray.get(refs, timeout=60), [n + c.count for n in range(count)])
    c.keep(refs[0])


def chains(c: Churn) -> None:
    ref = plus.remote(0)
    for _ in range(10):
        ref = plus.remote(ref)
    check(ray.get(ref, timeout=60), 11)


def nesting(c: Churn) -> None:
    depth = c.random.randint(1, 3)
    check(ray.get(nested.remote(depth), timeout=60), depth)


def closures(c: Churn) -> None:
    """A definition of its own for each call, as a program that decorates lambdas in a loop makes them."""
    number = c.count
    check(ray.get(ray.remote(lambda x: x + number).remote(1), timeout=60), number + 1)


def shapes(c: Churn) -> None:
    """A scheduling class of its own for each call."""
    cpus = c.random.randint(1, 9999) / 10_000
    check(ray.get(plus.options(num_cpus=cpus, name=f"shape {c.count}").remote(1), timeout=60), 2)


def unheld(c: Churn) -> None:
    for n in range(10):
        plus.remote(n)
    make.remote(200_000, 1)


def actors(c: Churn) -> None:
    actor = Counter.remote(5)
    refs = [actor.add.remote() for _ in range(10)]
    check(ray.get(refs, timeout=60), list(range(6, 16)))
    if c.random.random() < 0.3:
        c.keep(actor)


def named_actors(c: Churn) -> None:
    name = f"name{c.count}"
    made = Counter.options(name=name).remote()
    check(ray.get(ray.get_actor(name).add.remote(2), timeout=60), 2)
    if c.random.random() < 0.5:
        ray.kill(made)
        errors(made.add.remote(), ray.exceptions.ActorDiedError)


def classes(c: Churn) -> None:
    """A class of its own for each actor."""

    class Own:
        def number(self) -> int:
            return 7

    check(ray.get(ray.remote(Own).options(num_cpus=0).remote().number.remote(), timeout=60), 7)


def async_actors(c: Churn) -> None:
    actor = Async.remote()
    check(ray.get([actor.twice.remote(n) for n in range(20)], timeout=60), [2 * n for n in range(20)])


def dying_actors(c: Churn) -> None:
    actor = Counter.options(max_restarts=1, max_task_retries=2).remote()
    ray.get(actor.add.remote(), timeout=60)
    errors(
        actor.end.options(max_task_retries=0).remote(),
        ray.exceptions.ActorDiedError,
        ray.exceptions.ActorUnavailableError,
    )
    check(ray.get(actor.add.remote(), timeout=60), 1)


def puts(c: Churn) -> None:
    size = c.random.choice([1000, 200_000, 3 * MIB])
    array = numpy.full(size, 1, dtype=numpy.uint8)
    ref = ray.put(array)
    view = ray.get(ref)
    check(ray.get(total.remote(ref), timeout=60), size)
    check(int(view[-1]), 1)
    c.keep(view if c.random.random() < 0.5 else ref)


def large_results(c: Churn) -> None:
    size = c.random.choice([150_000, 2 * MIB])
    ref = make.remote(size, 3)
    check(int(ray.get(ref, timeout=60)[-1]), 3)
    counter = Counter.remote()
    check(ray.get(counter.keep.remote(ref), timeout=60), size)
    c.keep(ref)


def overflow(c: Churn) -> None:
    """More than the arena holds, so that some of it lies on the disk."""
    refs = [ray.put(numpy.full(16 * MIB, n, dtype=numpy.uint8)) for n in range(8)]
    for n, ref in enumerate(refs):
        check(int(ray.get(ref, timeout=60)[n]), n)


def refs_in_refs(c: Churn) -> None:
    inner = [ray.put(n) for n in range(5)] + [make.remote(150_000, 2)]
    outer = wrap.remote(inner)
    found = ray.get(outer, timeout=60)
    check(ray.get(found[-1], timeout=60), 6)
    check(ray.get(gather.remote(found[:5]), timeout=60), list(range(5)))
    c.keep(outer)


def generators(c: Churn) -> None:
    count, size = c.random.randint(1, 50), c.random.choice([0, 0, 150_000])
    stream = numbers.options(num_returns="streaming").remote(count, size)
    taken = c.random.randint(0, count)  # what is left is never read
    for n in range(taken):
        value = ray.get(next(stream), timeout=60)
        check(int(value if not size else value[0]), n)


def cancels(c: Churn) -> None:
    refs = [sleeps.remote(30) for _ in range(c.random.randint(1, 5))]
    force = c.random.random() < 0.5
    for ref in refs:
        ray.cancel(ref, force=force)
    for ref in refs:
        errors(ref, ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)


def crashes(c: Churn) -> None:
    errors(dies.remote(c.random.choice(["exit", "kill"])), ray.exceptions.WorkerCrashedError)


def murders(c: Churn) -> None:
    """A worker is killed in the middle of a task, which runs again."""
    path = os.path.join(c.folder, f"pid{c.count}")
    ref = sleeps.remote(0.05, path)
    deadline = time.monotonic() + 60
    while not (os.path.exists(path) and os.path.getsize(path)):
        if time.monotonic() > deadline:
            raise AssertionError("a task did not begin within a minute")
        time.sleep(0.001)
    with open(path) as file:
        pid = int(file.read())
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it had ended, and its worker was retired
    check(ray.get(ref, timeout=60), 0.05)
    os.unlink(path)


def failures(c: Churn) -> None:
    for ref in [fails_sometimes.remote(n, 4) for n in range(8)]:
        try:
            ray.get(ref, timeout=60)
        except Expected:
            continue


def groups(c: Churn) -> None:
    group = ray.util.placement_group([{"CPU": 1}], strategy="PACK")
    try:
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
        check(ray.get(plus.options(scheduling_strategy=strategy).remote(1), timeout=60), 2)
    finally:
        ray.util.remove_placement_group(group)


def environments(c: Churn) -> None:
    env = {"env_vars": {"SOAK": str(c.random.randint(0, 3))}}
    check(ray.get(plus.options(runtime_env=env).remote(1), timeout=60), 2)


def waits(c: Churn) -> None:
    slow = sleeps.remote(0.02)
    ready, rest = ray.wait([plus.remote(1), slow], num_returns=1, timeout=60)
    check(len(ready) + len(rest), 2)


STEPS: list[tuple[str, Callable[[Churn], None]]] = [
    (step.__name__, step)
    for step in (
        tasks, chains, nesting, closures, shapes, unheld, actors, named_actors, classes, async_actors, dying_actors, puts,
        large_results, overflow, refs_in_refs, generators, cancels, crashes, murders, failures, groups, environments, waits,
    )
]  # fmt: skip
RARE = {"overflow": 0.2, "environments": 0.3, "dying_actors": 0.4, "crashes": 0.4, "murders": 0.4}
WEIGHTS = [RARE.get(name, 1.0) for name, _ in STEPS]
