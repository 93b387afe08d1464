"""An author of random programs: what drivers and tasks do next, drawn by the weights of a theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.simulation.programs.spec import CPU, Operation, Spec, method
from skate.simulation.programs.themes import THEMES

if TYPE_CHECKING:
    import random

DURATIONS = (5, 50, 500, 20_000)  # microseconds


class Author:
    """Draws programs at random.

    With `free` false they cannot deadlock: nothing waits for what could wait for it, so every `get` must end by itself.
    With `failures` false nothing fails, is cancelled or killed, so every result must be a value.
    """

    def __init__(self, rng: random.Random, *, free: bool, failures: bool, most_cpus: int, gpus: bool) -> None:
        self.rng = rng
        self.free = free
        self.failures = failures
        self.most_cpus = most_cpus
        self.gpus = gpus
        self.count = 0
        self.theme = rng.choice(THEMES)
        # Every run has its own mix, with much of one thing and nothing of another.
        kinds = {
            self._submit: 10, self._call: 6, self._create: 2, self._put: 2, self._drop: 4, self._drop_actor: 1,
            self._drop_stream: 1,
            self._look: 1, self._name: 0.5, self.group_operation: 2, self._burst: 0.2,
            self._many_calls: 0.2, self._read: 0.4,
        }  # fmt: skip
        if failures:
            kinds |= {self._cancel: 2, self._kill: 0.5, self._exit: 0.2}
        elif not free:
            kinds |= {self._whole: 1}
        self.kinds = list(kinds)
        stress = self.theme.kinds
        self.weights = [
            weight * rng.choice((0.1, 1, 1, 4)) * stress.get(kind.__name__, 1)
            for kind, weight in kinds.items()
        ]

    def driver_operation(self) -> Operation:
        """Something that a driver does next."""
        kind: Callable[[], Operation] = self.rng.choices(self.kinds, self.weights)[0]
        return kind()

    def _submit(self) -> Operation:
        return ("submit", self.task(2), self.picks(), self.picks())

    def _burst(self) -> Operation:
        """Many short tasks of one scheduling class at once, more than there are CPUs for."""
        first = self.task(1)
        rest = [self.task(1) for _ in range(self.rng.randrange(3, 12))]
        for spec in rest:
            spec.request, spec.strategy, spec.environment = first.request, first.strategy, first.environment
            spec.max_calls = first.max_calls
        for spec in (first, *rest):
            spec.micros = DURATIONS[0]
        return ("several", tuple(("submit", spec, self.picks(), self.picks()) for spec in (first, *rest)))

    def _many_calls(self) -> Operation:
        """An actor, and many calls of it at once."""
        calls = [
            ("call", -1, self.call(2), self.picks(), self.picks()) for _ in range(self.rng.randrange(3, 9))
        ]
        return ("several", (("create", *self.actor()), *calls))

    def _exit(self) -> Operation:
        """An actor that exits on its own, between calls of it."""
        calls = [self.call(1) for _ in range(self.rng.randrange(2, 9))]
        calls[self.rng.randrange(len(calls))].program = (("exit",),)
        return ("several", (("create", *self.actor()), *(("call", -1, spec) for spec in calls)))

    def _call(self) -> Operation:
        return ("call", self.number(), self.call(2), self.picks(), self.picks())

    def _create(self) -> Operation:
        return ("create", *self.actor(), self.picks(), self.picks())

    def _put(self) -> Operation:
        return ("put", self.rng.random() < 0.5, self.picks())

    def _drop(self) -> Operation:
        return ("drop", self.number())

    def _drop_actor(self) -> Operation:
        return ("drop_actor", self.number())

    def _drop_stream(self) -> Operation:
        return ("drop_stream", self.number())

    def _whole(self) -> Operation:
        return ("whole", self.number())

    def _look(self) -> Operation:
        return ("get", self.number()) if self.free and self.rng.random() < 0.5 else ("next", self.number())

    def _read(self) -> Operation:
        """Read a stream that has many items and waits for its reader."""
        spec = self.task(1)
        spec.streaming, spec.returns = True, 1
        spec.backpressure = self.rng.choice((1, 2)) if self.free else 0
        items = tuple(
            ("item", self.rng.random() < self.theme.large, ()) for _ in range(self.rng.randrange(2, 7))
        )
        spec.program = (*spec.program[:1], *items)
        reads = [("next", -1)] * self.rng.randrange(1, 6)
        return ("several", (("submit", spec, self.picks()), *reads))

    def _name(self) -> Operation:
        return ("name", self.rng.choice("abc"))

    def _cancel(self) -> Operation:
        return ("cancel", self.number(), self.rng.random() < 0.4, self.rng.random() < 0.7)

    def _kill(self) -> Operation:
        return ("kill", self.number(), self.rng.random() < 0.6)

    def group_operation(self) -> Operation:
        """Something about placement groups."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.4:
            bundles = tuple({"CPU": rng.choice((CPU, CPU // 2))} for _ in range(rng.randrange(1, 4)))
            return ("group", bundles, rng.choice(("PACK", "STRICT_PACK", "SPREAD")))
        if kind < 0.55:
            return ("ready", self.number())
        if kind < 0.7 and self.failures:
            return ("remove_group", self.number())
        index = rng.choice((-1, -1, 0))
        if kind < 0.9 or not self.failures:
            spec = Spec(self.name("placed"), self.program(1), retries=1, request={"CPU": CPU // 2})
            return ("in_group", self.number(), index, spec, self.picks())
        spec, life = self.actor()
        spec.request = {"CPU": CPU // 2}
        return ("create_in_group", self.number(), index, spec, life)

    def number(self) -> int:
        """Draw a number for a ref or an actor."""
        return self.rng.randrange(1 << 20)

    def picks(self) -> tuple[int, ...]:
        """Draw numbers of refs to pass on."""
        if self.rng.random() >= self.theme.passing:
            return ()
        return tuple(self.number() for _ in range(self.rng.randrange(1, 3)))

    def name(self, kind: str) -> str:
        """Return a name that no other spec has."""
        self.count += 1
        return f"{kind}{self.count}"

    def options(self) -> dict[str, Any]:
        """Options that tasks and calls share."""
        rng, theme = self.rng, self.theme
        streaming = rng.random() < theme.streaming
        # A stream may not be read to its end, so where deadlocks are ruled out, its generator must not wait for its reader.
        waits = self.free and streaming and rng.random() < theme.backpressure
        return {
            "returns": 1 if streaming else rng.choice((1, 1, 1, 1, 0, 2)),
            "streaming": streaming,
            "retries": rng.choice(theme.retries),
            "micros": rng.choice(DURATIONS),
            "large": rng.random() < theme.large,
            "backpressure": rng.choice((1, 2)) if waits else 0,
        }

    def task(self, depth: int) -> Spec:
        """Draw a plain task."""
        rng = self.rng
        request = {"CPU": rng.choice((CPU, CPU, CPU, CPU // 2, 0, self.most_cpus * CPU))}
        if self.gpus and rng.random() < 0.2:
            request["GPU"] = rng.choice((CPU // 2, CPU, 3_000))
        request = {name: units for name, units in request.items() if units}
        max_calls = rng.choice((0, 0, 0, 0, 0, 2))
        function = rng.choice((b"f", b"g"))
        environment = "env" if rng.random() < 0.05 else None
        options = self.options()
        program = self.program(depth, streaming=options["streaming"])
        return Spec(
            self.name("task"), program, request=request, max_calls=max_calls, function=function,
            environment=environment, **options,
        )  # fmt: skip

    def call(self, depth: int) -> Spec:
        """Draw a method call."""
        options = self.options()
        program = self.program(depth, in_actor=True, streaming=options["streaming"])
        return method(self.name("call"), program, **options)

    def actor(self) -> tuple[Spec, dict[str, Any]]:
        """Return an actor class and how the actor is to live."""
        rng, theme = self.rng, self.theme
        life = {
            "actor_name": rng.choice("abc") if rng.random() < theme.named and self.failures else "",
            "namespace": "",
            "detached": False,
            "max_restarts": rng.choice(theme.restarts) if self.failures else 0,
            "max_task_retries": rng.choice((0, 1, -1)),
            "concurrent": rng.random() < theme.concurrent,
            "handle": b"",
        }
        life["detached"] = bool(life["actor_name"]) and rng.random() < 0.3
        request: dict[str, int] = {"CPU": CPU // 2} if self.free and rng.random() < theme.held_cpu else {}
        program = self.program(0, in_actor=True) if rng.random() < 0.3 else ()
        spec = Spec(self.name("actor"), program, request=request, concurrent=life["concurrent"])
        return spec, life

    def program(
        self, depth: int, *, in_actor: bool = False, streaming: bool = False
    ) -> tuple[Operation, ...]:
        """Draw the program of a task."""
        rng, theme = self.rng, self.theme
        operations: list[Operation] = []
        for _ in range(rng.randrange(0, 4)):
            operations.append(self.task_operation(depth, in_actor))
            if streaming and rng.random() < 0.7:
                operations.append(("item", rng.random() < theme.large, self.picks()))
        if self.failures and rng.random() < theme.fail:
            fail = ("fail", rng.random() < 0.7, rng.choice((1, 2, 5)))
            operations.insert(rng.randrange(len(operations) + 1), fail)
        if self.failures and rng.random() < theme.crash:
            operations.insert(rng.randrange(len(operations) + 1), ("crash", rng.choice((1, 2))))
        if in_actor and self.failures and rng.random() < theme.leave:
            operations.append(("exit",))
        if rng.random() < theme.give:
            operations.append(("give", self.picks()))
        return tuple(operations)

    def task_operation(self, depth: int, in_actor: bool) -> Operation:
        """Something that a task does next."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return ("work",)
        if kind < 0.5 and depth:
            # Where deadlocks are ruled out, what a method starts must not wait for other methods.
            child = self.task(depth - 1) if self.free or not in_actor else Spec(self.name("child"), retries=1)
            passed = self.free or not in_actor
            return ("submit", child, self.picks() if passed else (), self.picks() if passed else ())
        if kind < 0.5 + self.theme.wait and (self.free or not in_actor):
            if self.free and depth and rng.random() < 0.5:
                return ("nested", self.task(depth - 1), self.picks())
            return ("get", self.number())
        if kind < 0.58 + self.theme.wait:
            return ("put", rng.random() < 0.5, self.picks())
        if kind < 0.68 + self.theme.wait:
            return ("drop", self.number())
        if kind < 0.87 and depth and self.free:
            return ("call", self.number(), self.call(depth - 1), self.picks(), self.picks())
        if kind < 0.9 and depth and self.free:
            return ("create", *self.actor(), self.picks())
        if kind < 0.93 and in_actor:
            return ("stash", self.number())
        if kind < 0.95 and self.failures:
            return ("cancel", self.number(), rng.random() < 0.4, True)
        return ("work",)
