"""`@serve.batch` on a virtual clock: the contents of batches, their start, and the recipients of results."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.virtual import run

from skate import serve

#: Sums of floats for the same time differ by less.
TINY = 1e-6


@dataclass
class Seen:
    """The record of a batched function: the time, values and maximum size of each batch, and the times when batches ended."""

    batches: list[tuple[float, list[int], int]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    active: int = 0
    most: int = 0


def batched(seen: Seen, largest: int, wait_s: float, concurrent: int, work_s: float, bad: set[int]) -> Any:
    @serve.batch(max_batch_size=largest, batch_wait_timeout_s=wait_s, max_concurrent_batches=concurrent)
    async def function(values: list[int]) -> list[Any]:
        loop = asyncio.get_running_loop()
        seen.batches.append((loop.time(), list(values), function._get_max_batch_size()))
        seen.active += 1
        seen.most = max(seen.most, seen.active)
        try:
            await asyncio.sleep(work_s)  # the work itself
            if bad & set(values):
                raise ValueError(f"bad: {sorted(bad & set(values))}")
            return [value * 10 for value in values]
        finally:
            seen.active -= 1
            seen.ended.append(loop.time())

    return function


arrivals = st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.004, 0.01, 0.05]), min_size=1, max_size=25)
sizes = st.integers(1, 6)
waits = st.sampled_from([0.0, 0.005, 0.02])
works = st.sampled_from([0.0, 0.003, 0.03])


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=120)
@given(arrivals, sizes, waits, st.integers(1, 3), works, st.sets(st.integers(0, 24), max_size=3))
def test_what_holds_for_every_batch(
    gaps: list[float], largest: int, wait_s: float, concurrent: int, work_s: float, bad: set[int]
) -> None:
    seen = Seen()
    function = batched(seen, largest, wait_s, concurrent, work_s, bad)
    came: dict[int, float] = {}

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        calls = []
        for number, gap in enumerate(gaps):
            if gap:
                await asyncio.sleep(gap)  # until the next call comes
            came[number] = loop.time()
            calls.append(loop.create_task(function(number)))
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = run(main())
    # In order of arrival, each in one batch, no batch too large, and never too many at the same time.
    assert [value for _, values, _ in seen.batches for value in values] == list(range(len(gaps)))
    assert all(1 <= len(values) <= largest for _, values, _ in seen.batches)
    assert seen.most <= concurrent
    for begun, values, _ in seen.batches:
        due = came[values[0]] + wait_s
        # A batch starts early only if it is full, and late only if it waited for another one to end.
        assert begun >= due - TINY or len(values) == largest
        assert begun <= due + TINY or any(abs(begun - each) < TINY for each in seen.ended)
        for value in values:
            answer = answers[value]
            if bad & set(values):
                assert isinstance(answer, ValueError) and str(answer) == f"bad: {sorted(bad & set(values))}"
            else:
                assert answer == value * 10


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(arrivals, sizes, st.integers(1, 2), works, st.data())
def test_callers_that_go_take_nothing_from_others(
    gaps: list[float], largest: int, concurrent: int, work_s: float, data: st.DataObject
) -> None:
    seen = Seen()
    function = batched(seen, largest, 0.02, concurrent, work_s, set())
    goes = data.draw(st.dictionaries(st.integers(0, len(gaps) - 1), st.sampled_from([0.0, 0.002, 0.03])))
    gone_before: set[int] = set()

    async def main() -> dict[int, Any]:
        loop = asyncio.get_running_loop()
        calls: dict[int, asyncio.Task[Any]] = {}

        def cancel(number: int) -> None:
            if not any(number in values for _, values, _ in seen.batches):
                gone_before.add(number)
            calls[number].cancel()

        for number, gap in enumerate(gaps):
            if gap:
                await asyncio.sleep(gap)  # until the next call comes
            calls[number] = loop.create_task(function(number))
            if number in goes:
                loop.call_later(goes[number], cancel, number)
        done = await asyncio.gather(*calls.values(), return_exceptions=True)
        return dict(enumerate(done))

    answers = run(main())
    worked = [value for _, values, _ in seen.batches for value in values]
    assert worked == sorted(worked) and not gone_before & set(worked)
    assert all(len(values) <= largest for _, values, _ in seen.batches)
    for number, answer in answers.items():
        assert answer == number * 10 or (number in goes and isinstance(answer, asyncio.CancelledError))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.tuples(sizes, waits, st.integers(1, 8)), min_size=1, max_size=6))
def test_size_and_time_may_change_while_it_runs(steps: list[tuple[int, float, int]]) -> None:
    seen = Seen()
    function = batched(seen, 1, 0.0, 1, 0.01, set())
    changed: dict[float, int] = {}

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        calls: list[Any] = []
        for largest, wait_s, count in steps:
            changed[loop.time()] = function._get_max_batch_size()
            function.set_max_batch_size(largest)
            function.set_batch_wait_timeout_s(wait_s)
            calls += [loop.create_task(function(len(calls) + each)) for each in range(count)]
            await asyncio.sleep(0.008)  # some of them begin
        return list(await asyncio.gather(*calls))

    total = sum(count for _, _, count in steps)
    assert run(main()) == [number * 10 for number in range(total)]
    # A batch that began at the time of a change may still have the previous size.
    assert all(len(values) <= max(largest, changed.get(at, 0)) for at, values, largest in seen.batches)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=15), st.integers(4, 10))
def test_a_size_of_ones_own(weights: list[int], largest: int) -> None:
    """The padded size of a batch is not the sum of the sizes of its members."""
    batches: list[list[int]] = []

    def padded(values: list[int]) -> int:
        return max(values) * len(values)

    @serve.batch(max_batch_size=largest, batch_wait_timeout_s=0.01, batch_size_fn=padded)
    async def function(values: list[int]) -> list[int]:
        batches.append(values)
        return values

    async def main() -> list[Any]:
        return await asyncio.gather(*(function(each) for each in weights), return_exceptions=True)

    answers = run(main())
    assert all(padded(values) <= largest for values in batches)
    fits = [weight for weight in weights if weight <= largest]
    assert [value for values in batches for value in values] == fits
    # Batches are as large as possible: none could have taken the next call as well.
    left = list(weights)
    for one in batches:
        while left[0] > largest:
            left.pop(0)
        del left[: len(one)]
        assert not left or padded([*one, left[0]]) > largest
    for weight, answer in zip(weights, answers, strict=True):
        if weight <= largest:
            assert answer == weight
        else:
            assert isinstance(answer, RuntimeError) and f"it returned {weight} for" in str(answer)


def test_a_measure_that_raises_fails_only_its_own_call() -> None:
    def measure(values: list[str]) -> int:
        return sum(len(value) for value in values)

    @serve.batch(max_batch_size=10, batch_wait_timeout_s=0.01, batch_size_fn=measure)
    async def function(values: list[str]) -> list[str]:
        return values

    async def main() -> list[Any]:
        return await asyncio.gather(*(function(each) for each in ("ab", 5, "c")), return_exceptions=True)

    first, wrong, last = run(main())
    assert (first, last) == ("ab", "c") and isinstance(wrong, TypeError)


def test_calls_that_waited_behind_a_slow_batch_do_not_wait_again() -> None:
    seen = Seen()
    function = batched(seen, 10, 0.05, 1, 1.0, set())

    async def main() -> None:
        first = asyncio.ensure_future(function(0))
        await asyncio.sleep(0.2)  # its batch has begun
        await asyncio.gather(first, function(1), function(2))

    run(main())
    assert [(round(at, 6), values) for at, values, _ in seen.batches] == [(0.05, [0]), (1.05, [1, 2])]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), sizes, st.sets(st.integers(0, 8)), st.booleans())
def test_streams_go_to_their_callers(lengths: list[int], largest: int, leave: set[int], fails: bool) -> None:
    """Each stream has its own length. Some callers leave after the first value; batches may fail in their third round."""
    rounds: list[int] = []

    @serve.batch(max_batch_size=largest, batch_wait_timeout_s=0.01)
    async def function(values: list[int]) -> Any:
        for at in range(5):
            await asyncio.sleep(0.001)  # the work itself
            if fails and at == 2:
                raise ValueError("the third round")
            rounds.append(at)
            yield [at if at < lengths[value] else StopIteration for value in values]

    async def listen(number: int) -> Any:
        got: list[int] = []
        stream = function(number)
        try:
            async for each in stream:
                got.append(each)
                if number in leave:
                    await stream.aclose()
                    break
        except ValueError as error:
            return got, str(error)
        return got, ""

    async def main() -> list[Any]:
        return await asyncio.gather(*(listen(number) for number in range(len(lengths))))

    for number, (got, error) in enumerate(run(main())):
        length = lengths[number]
        if number in leave:
            assert (got, error) == (list(range(min(length, 1))), "")
        elif fails and length >= 2:
            assert (got, error) == ([0, 1], "the third round")
        else:
            assert (got, error) == (list(range(length)), "")


def test_a_stream_that_nobody_hears_ends() -> None:
    events: list[Any] = []

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0.01)
    async def function(values: list[int]) -> Any:
        try:
            for at in range(1000):
                await asyncio.sleep(1)  # the work itself
                events.append(at)
                yield [at] * len(values)
        finally:
            events.append("closed")

    async def main() -> None:
        async def first(number: int) -> None:
            stream = function(number)
            async for _ in stream:
                break
            await stream.aclose()

        await asyncio.gather(first(0), first(1))
        await asyncio.sleep(10)  # long enough for nine more rounds

    run(main())
    assert events[-1] == "closed" and len(events) <= 3


@pytest.mark.parametrize(
    ("returned", "kind", "complaint"),
    [
        (None, TypeError, "must return a list for a batch, got a NoneType"),
        (5, TypeError, "must return a list for a batch, got a int"),
        ([1], serve.exceptions.RayServeException, "has length 2 but the returned list has length 1"),
        ([1, 2, 3], serve.exceptions.RayServeException, "has length 2 but the returned list has length 3"),
    ],
)
def test_what_a_batch_may_not_return(returned: Any, kind: type[Exception], complaint: str) -> None:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0.01)
    async def function(values: list[int]) -> Any:
        return returned

    async def main() -> list[Any]:
        return await asyncio.gather(function(1), function(2), return_exceptions=True)

    for answer in run(main()):
        assert type(answer) is kind and complaint in str(answer)


def test_an_exception_among_the_results_is_its_callers_alone() -> None:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0.01)
    async def function(values: list[int]) -> Any:
        return [ValueError("odd") if value % 2 else value for value in values]

    async def main() -> list[Any]:
        return await asyncio.gather(function(1), function(2), return_exceptions=True)

    odd, even = run(main())
    assert isinstance(odd, ValueError) and even == 2
