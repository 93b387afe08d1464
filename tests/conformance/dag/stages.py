"""Actors that the tests of compiled graphs share."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import ray


@ray.remote(num_cpus=0)
class Stage:
    """Counts, adds, fails, waits."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.seen: list[Any] = []

    def echo(self, value: Any) -> Any:
        return value

    def add(self, value: int) -> int:
        self.total += value
        return self.total

    def double_and_add(self, value: int) -> int:
        self.total = 2 * self.total + value
        return self.total

    def add_two(self, left: int, right: int) -> int:
        self.total += left + right
        return self.total

    def pair(self, left: Any, right: Any) -> tuple[Any, Any]:
        return left, right

    def three(self, one: Any, two: Any, other: Any) -> tuple[Any, Any, Any]:
        return one, two, other

    def keywords(self, value: Any, *, scale: int = 1, offset: int = 0) -> Any:
        return value * scale + offset

    def keep(self, value: Any) -> list[Any]:
        self.seen.append(value)
        return list(self.seen)

    def received(self) -> list[Any]:
        return self.seen

    def wait(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def wait_for_file(self, path: str) -> str:
        until = time.monotonic() + 30
        while not os.path.exists(path) and time.monotonic() < until:
            time.sleep(0.005)
        return path

    def fail(self, value: Any) -> Any:
        raise ValueError(f"cannot take {value}")

    def fail_if_even(self, value: int) -> int:
        if value % 2 == 0:
            raise ValueError(f"{value} is even")
        return value

    @ray.method(num_returns=2)
    def two(self, value: int) -> tuple[int, int]:
        return value, value + 1

    @ray.method(num_returns=2)
    def two_or_fail(self, value: int) -> tuple[int, int]:
        raise RuntimeError(f"no two of {value}")

    @ray.method(num_returns=3)
    def three_parts(self, value: int) -> tuple[int, int, int]:
        return value, value + 1, value + 2

    @ray.method(num_returns=2)
    def too_many(self, value: int) -> tuple[int, int, int]:
        return value, value, value

    @ray.method(num_returns=1)
    def two_as_one(self, value: int) -> tuple[int, int]:
        return value, value + 1

    def lock_if_even(self, value: int) -> Any:
        return threading.Lock() if value % 2 == 0 else value

    def die(self, value: Any) -> None:
        os._exit(1)

    def pid(self, value: Any = None) -> int:
        return os.getpid()

    def array_sum(self, value: Any) -> float:
        return float(value.sum())

    def is_writeable(self, value: Any) -> bool:
        return bool(value.flags.writeable)
