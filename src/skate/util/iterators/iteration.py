"""Iteration over results as they become ready, with a limit on unfinished tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import skate


def as_completed(
    refs: Sequence[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False, **kwargs: Any
) -> Iterator[Any]:
    """Iterate over the results of `refs` as they become ready.

    Results are yielded in groups of `chunk_size`; within a group they keep the order of `refs`.

    Args:
        refs: refs to wait for.
        chunk_size: results to wait for at a time, at least 1.
        yield_obj_refs: yield the refs, not their values.
        **kwargs: `timeout` (seconds for one wait) and `fetch_local`, as for `wait`.

    Raises:
        ValueError: `chunk_size` is below 1, or `num_returns` was given.
    """
    _check(chunk_size, kwargs)
    left = list(refs)
    while left:
        ready, left = _take_ready(left, chunk_size, yield_obj_refs, kwargs)
        yield from ready


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Run the remote function `fn` on every item, and iterate over the results as they become ready.

    Items are consumed only as fast as results: there are never more than `backpressure_size` unfinished calls.

    Args:
        fn: a remote function of one argument.
        items: its arguments; may be endless.
        backpressure_size: the most unfinished calls, or None for no limit.
        chunk_size: results to wait for at a time, at least 1.
        yield_obj_refs: yield the refs, not their values.
        **kwargs: `timeout` (seconds for one wait) and `fetch_local`, as for `wait`.

    Raises:
        ValueError: `backpressure_size` or `chunk_size` is below 1, or `num_returns` was given.
    """
    if backpressure_size is not None and backpressure_size <= 0:
        raise ValueError(f"backpressure_size must be positive or None, not {backpressure_size}")
    _check(chunk_size, kwargs)
    left: list[Any] = []
    for item in items:
        left.append(fn.remote(item))
        if backpressure_size is not None and len(left) >= backpressure_size:
            ready, left = _take_ready(left, chunk_size, yield_obj_refs, kwargs)
            yield from ready
    while left:
        ready, left = _take_ready(left, chunk_size, yield_obj_refs, kwargs)
        yield from ready


def _check(chunk_size: int, wait_options: dict[str, Any]) -> None:
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    if "num_returns" in wait_options:
        raise ValueError("num_returns is derived from chunk_size; pass chunk_size instead")


def _take_ready(
    refs: list[Any], chunk_size: int, yield_refs: bool, wait_options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    ready, left = skate.wait(refs, num_returns=min(chunk_size, len(refs)), **wait_options)
    return (ready if yield_refs else skate.get(ready)), left
