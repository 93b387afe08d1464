"""The thread that computes blocks ahead of their consumer, at the end of its session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import skate
from skate.data.iteration.prefetch import Prefetcher


def test_a_thread_that_is_still_at_work_after_shutdown_starts_no_session() -> None:
    working, shut, errors = threading.Event(), threading.Event(), list[BaseException]()
    ended = threading.Event()

    def blocks() -> Iterator[Any]:
        try:
            yield 1
            working.set()
            shut.wait()
            yield skate.put(2)
        except RuntimeError as error:
            errors.append(error)
        finally:
            ended.set()

    skate.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    values = iter(Prefetcher(blocks(), 2, lambda: None))
    assert next(values) == 1
    working.wait()
    values.close()  # type: ignore[attr-defined]
    skate.shutdown()
    shut.set()
    assert ended.wait(10)
    assert [str(each) for each in errors] == ["the session that this thread worked for has ended"]
    assert not skate.is_initialized()


def test_a_thread_may_start_the_first_session() -> None:
    def blocks() -> Iterator[Any]:
        yield skate.get(skate.put(2))

    try:
        assert list(Prefetcher(blocks(), 2, lambda: None)) == [2]
        assert skate.is_initialized()
    finally:
        skate.shutdown()
