"""Specs of scripted tasks: a function with its options, and the program of operations that it runs.

An operation is a tuple: the name of a `do_` method of the process that runs it, and its arguments. Numbers for refs, actors,
streams and groups are taken modulo the number of existing ones, so any operation is possible anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

Operation = tuple[Any, ...]
#: A program that runs; see `processes.process`.
Thread = Generator[Callable[[], bool] | None, None, Any]

CPU = 10_000
SIDE_BY_SIDE_MAX = 3  # calls that a concurrent actor runs at once


class Spec:
    """One function or method with its options, and the program that it runs.

    `program` is a tuple of operations, `request` is in units of 1/10000, `returns` counts results (0 and more),
    `micros` is how long it says it ran, `retries` bounds further attempts after a crash or a retriable failure.
    """

    __slots__ = (
        "name", "program", "returns", "retries", "request", "strategy", "max_calls", "streaming", "function", "micros",
        "large", "concurrent", "environment", "backpressure",
    )  # fmt: skip

    def __init__(self, name: str, program: tuple[Operation, ...] = (), **options: Any) -> None:
        self.name = name
        self.program = program
        self.returns: int = options.pop("returns", 1)
        self.retries: int = options.pop("retries", 0)
        self.request: dict[str, int] = options.pop("request", {"CPU": CPU})
        self.strategy: Any = options.pop("strategy", None)
        self.max_calls: int = options.pop("max_calls", 0)
        self.streaming: bool = options.pop("streaming", False)
        self.function: bytes = options.pop("function", b"function")
        self.micros: int = options.pop("micros", 50)
        self.large: bool = options.pop("large", False)
        self.concurrent: bool = options.pop("concurrent", False)
        self.environment: str | None = options.pop("environment", None)
        self.backpressure: int = options.pop("backpressure", 0)
        assert not options, f"no such options of a Spec: {sorted(options)}"

    @property
    def key(self) -> bytes:
        """The key of its template; two specs with the same fields share one."""
        return repr(sorted(self.fields().items())).encode()

    def fields(self) -> dict[str, Any]:
        """Return the fields of its template, as a client registers them."""
        fields: dict[str, Any] = {
            # Numbered ones are calls of one function, so that the node can learn how long it takes.
            "name": self.name.rstrip("0123456789"),
            "function": self.function,
            "request": self.request,
            "max_retries": self.retries,
            "returns": self.returns,
            "streaming": self.streaming,
            "strategy": self.strategy,
            "max_calls": self.max_calls,
            "concurrent": self.concurrent,
            "max_concurrency": SIDE_BY_SIDE_MAX if self.concurrent else 1,
        }
        if self.backpressure:
            fields["backpressure"] = self.backpressure
        if self.environment is not None:
            fields["environment"] = fields["env_key"] = self.environment
        return fields

    def placed(self, group_id: bytes, index: int) -> Spec:
        """Return the same in a bundle of a placement group."""
        other = Spec.__new__(Spec)
        for name in Spec.__slots__:
            setattr(other, name, getattr(self, name))
        other.strategy = ("bundle", group_id, index, False)
        return other

    def __repr__(self) -> str:
        return f"<Spec {self.name}>"


def method(name: str, program: tuple[Operation, ...] = (), **options: Any) -> Spec:
    """Return a Spec of an actor's method: it asks for nothing of its own."""
    return Spec(name, program, request={}, function=b"", **options)
