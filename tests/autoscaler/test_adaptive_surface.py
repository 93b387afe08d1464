"""Dask's adaptive loop as the autoscaler uses it: a release that changes it is seen here first."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable

import pytest

pytest.importorskip("distributed")

from distributed.deploy.adaptive_core import AdaptiveCore


class Loop(AdaptiveCore):  # type: ignore[misc]
    """Records what Dask calls, for a target that the test sets."""

    def __init__(self) -> None:
        super().__init__(minimum=1, maximum=3, wait_count=1)
        self.wanted = 0
        self.names: set[str] = set()
        self.calls: list[object] = []

    @property
    def plan(self) -> set[str]:
        return self.names

    requested = observed = plan

    async def target(self) -> int:
        return self.wanted

    async def workers_to_close(self, target: int) -> list[str]:
        return sorted(self.names)[target:]

    async def scale_up(self, n: int) -> None:
        self.calls.append(n)
        self.names = {f"w{number}" for number in range(n)}

    async def scale_down(self, workers: Iterable[str]) -> None:
        self.calls.append(sorted(workers))
        self.names -= set(workers)


def test_the_loop_calls_the_methods_that_the_autoscaler_has() -> None:
    loop = Loop()
    for wanted, calls in ((0, [1]), (9, [3]), (3, []), (2, [["w2"]]), (0, [["w1"]])):
        loop.calls, loop.wanted = [], wanted
        asyncio.run(loop.adapt())
        assert loop.calls == calls, f"target {wanted}"


def test_dask_awaits_these_methods_and_gives_these_arguments() -> None:
    for name, arguments in (
        ("target", []),
        ("workers_to_close", ["target"]),
        ("adapt", []),
        ("safe_target", []),
    ):
        method = getattr(AdaptiveCore, name)
        assert inspect.iscoroutinefunction(method)
        assert list(inspect.signature(method).parameters) == ["self", *arguments]
    assert list(inspect.signature(AdaptiveCore.__init__).parameters) == [
        "self",
        "minimum",
        "maximum",
        "wait_count",
    ]
