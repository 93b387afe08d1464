"""Streams beyond Ray's contract: the ref of a whole stream in another process, and a reader that closes its stream."""

from __future__ import annotations

from typing import Any

import pytest

import skate as ray


@pytest.fixture(autouse=True)
def session() -> Any:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


@ray.remote(num_cpus=0)
class Gate:
    """A gate that opens once."""

    def __init__(self) -> None:
        self._open = False

    def open(self) -> None:
        self._open = True

    def is_open(self) -> bool:
        return self._open


@ray.remote
def held_up(gate: Any) -> Any:
    yield 1
    while not ray.get(gate.is_open.remote()):
        pass


def test_the_end_of_a_stream_can_be_an_argument_before_it_comes() -> None:
    @ray.remote
    def after(done: None) -> str:
        return f"after {done}"

    gate = Gate.remote()
    stream = held_up.remote(gate)
    later = after.remote(stream.completed())
    assert ray.get(next(stream)) == 1
    ray.get(gate.open.remote())
    assert ray.get(later, timeout=30) == "after None"


def test_a_method_held_back_by_a_reader_that_closes_goes_on() -> None:
    @ray.remote
    class Counter:
        def count(self) -> Any:
            yield from range(100)

        def ping(self) -> str:
            return "pong"

    counter = Counter.remote()
    stream = counter.count.options(num_returns="streaming", _generator_backpressure_num_objects=1).remote()
    assert ray.get(next(stream)) == 0
    stream.close()
    assert ray.get(counter.ping.remote(), timeout=30) == "pong"
