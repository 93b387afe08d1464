"""The limiter that enforces `max_ongoing_requests` inside a replica."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.virtual import run

from skate.serve.replica.concurrency_limiter import ConcurrencyLimiter
from skate.serve.routing.counter_page import ONGOING, STARTED, WAITING


def made(limit: int) -> ConcurrencyLimiter:
    """Return a limiter whose counters are in a list instead of shared memory."""
    return ConcurrencyLimiter(SimpleNamespace(cells=[0] * 8), limit)  # type: ignore[arg-type]


steps = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "enter", "leave", "cancel", "turn", "resize"]), st.integers(0, 50)
    ),
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(steps, st.integers(1, 4))
def test_no_more_than_the_limit_and_in_order(what: list[tuple[str, int]], limit: int) -> None:
    limiter = made(limit)
    entered: list[int] = []
    inside: list[int] = []
    gone: set[int] = set()

    async def enter(number: int) -> None:
        await limiter.enter()
        entered.append(number)
        inside.append(number)

    async def main() -> None:
        nonlocal limit
        tasks: dict[int, asyncio.Task[None]] = {}
        for step, number in what:
            # Calls resume in the order of their places if earlier ones have begun before a place becomes free,
            # and the call that gets it resumes before a new one begins.
            if step in ("leave", "resize"):
                await asyncio.sleep(0)
            if step == "enter":
                tasks[len(tasks)] = asyncio.ensure_future(enter(len(tasks)))
            elif step == "leave" and inside:
                inside.pop(number % len(inside))
                limiter.leave(0.0, False)
            elif step == "cancel" and tasks:
                one = number % len(tasks)
                if not tasks[one].done():
                    tasks[one].cancel()
            elif step == "resize":
                await asyncio.sleep(0)  # calls made before wait by now, so they keep their order
                limit = 1 + number % 4
                limiter.resize(limit)
            if step in ("leave", "resize"):
                await asyncio.sleep(0)
            elif step == "turn":
                before = limiter.cells[ONGOING]  # a place that was passed on counts already
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert len(inside) <= max(limit, before)
        await asyncio.sleep(1)  # everything that can enter has entered
        gone.update(number for number, task in tasks.items() if task.done() and task.cancelled())
        wait = len(tasks) - len(entered) - len(gone)
        assert limiter.cells[ONGOING] == len(inside) and limiter.cells[WAITING] == wait == limiter.waiting
        assert not wait or len(inside) >= limit, "a caller waits although there is room"
        # Now all calls leave, one after another.
        while inside:
            inside.pop()
            limiter.leave(0.0, False)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert limiter.idle and limiter.cells[WAITING] == 0 and limiter.cells[STARTED] == len(entered)
        for task in tasks.values():
            assert task.done() and (task.cancelled() or task.exception() is None)
        assert entered == sorted(entered)
        assert sorted([*entered, *gone]) == list(range(len(tasks)))

    run(main())


def test_a_request_that_goes_in_the_moment_of_its_turn_passes_it_on() -> None:
    limiter = made(1)

    async def main() -> None:
        await limiter.enter()
        first, second = asyncio.ensure_future(limiter.enter()), asyncio.ensure_future(limiter.enter())
        await asyncio.sleep(0)
        limiter.leave(0.0, False)  # the first one is next
        first.cancel()
        await asyncio.wait_for(second, 1)
        assert first.cancelled() and limiter.cells[ONGOING] == 1

    run(main())


def test_one_that_went_before_its_turn_is_passed_over() -> None:
    limiter = made(1)

    async def main() -> None:
        await limiter.enter()
        first, second = asyncio.ensure_future(limiter.enter()), asyncio.ensure_future(limiter.enter())
        await asyncio.sleep(0)
        first.cancel()
        limiter.leave(0.0, False)  # before the first one is notified
        await asyncio.wait_for(second, 1)
        assert first.cancelled() and limiter.cells[ONGOING] == 1 and limiter.waiting == 0

    run(main())
