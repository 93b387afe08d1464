"""Filters of the larger input of a join by the keys of the smaller one, which is read first.

A scan with such a filter makes only the rows that match: the other columns of the rest are never decoded, and the join has
fewer rows to look up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from skate.data.exchange.join import UNMATCHED, JoinKernel
from skate.data.plan import operators as logical
from skate.data.relational.held_rows import RowBudget
from skate.data.relational.kinds import is_text
from skate.data.relational.refusals import StageRefused
from skate.data.relational.unread import with_unread
from skate.data.relational.used_columns import Columns

#: The least rows of the larger input.
_ROWS = 1 << 18
#: How many times as many rows as the smaller input it has to have: at most before that was read, and in fact.
_TIMES = 2
_TIMES_READ = 4
#: The rows of which not too large a part may have a match.
_SAMPLE = 1 << 12
_MATCHING = 0.5


class Inputs(Protocol):
    """The inputs of joins."""

    def narrowed(self, frames: Any, node: logical.Exchange, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs of a join, perhaps with fewer rows that match nothing."""


class PlannedInputs:
    """The inputs as they are; counts those that are worth a filter."""

    def __init__(self) -> None:
        self.worthy = 0

    def narrowed(self, frames: Any, node: logical.Exchange, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs."""
        # How many rows a filter leaves shows only when the stage runs.
        fewest = [0.0 if each.is_filtered and each.is_scan else each.rows for each in inputs]
        self.worthy += larger_of(node.kernel, inputs, [each.rows for each in inputs], fewest) is not None
        return inputs


class FilteredInputs:
    """The inputs when a stage runs: a small one is read, and filters a large one."""

    def __init__(self, used: dict[int, Columns], is_wanted: Callable[[], bool]) -> None:
        self._used = used
        self._is_wanted = is_wanted

    def narrowed(self, frames: Any, node: logical.Exchange, inputs: Sequence[Any]) -> Sequence[Any]:
        """Read the smaller input and filter the larger one, if that is certain or likely to pay."""
        kernel: Any = node.kernel
        rows = [_expected(frames, *each) for each in zip(node.inputs, inputs, strict=True)]
        at = larger_of(kernel, inputs, rows, rows)
        if at is None:
            return inputs
        if not self._is_wanted():
            raise StageRefused("the stage was closed")
        large = inputs[at]
        small = _read(frames, inputs[1 - at], self._columns(node, inputs, 1 - at))
        if small.rows * _TIMES_READ <= rows[at]:
            known = small.lazy.select(kernel.sides[1 - at].keys[0]).collect().to_series().drop_nulls()
            matches = frames.polars.col(kernel.sides[at].keys[0]).is_in(known.implode())
            # A sample of the source costs less than a filter that removes few rows.
            sample = frames.sampled(_SAMPLE).of(node.inputs[at]).lazy.select(matches.mean()).collect().item()
            if sample is not None and sample <= _MATCHING:
                large = large._replace(lazy=large.lazy.filter(matches))
        return (large, small) if at == 0 else (small, large)

    def _columns(self, node: logical.Exchange, inputs: Sequence[Any], side: int) -> list[str]:
        """Return the columns of an input that are used by the join or after it."""
        kernel: Any = node.kernel
        used = self._used[id(node)]
        called = kernel.names(inputs[0].schema, inputs[1].schema)[side]
        return [
            name
            for name in inputs[side].schema.names
            if name in kernel.sides[side].keys or (name in called and (used is None or called[name] in used))
        ]


def _read(frames: Any, frame: Any, kept: list[str]) -> Any:
    """Read some columns of a frame. The others stay in its schema, but raise if they are used.

    Samples do not tell everything, so the rows are counted: the ordinary way runs instead if they are too many.
    """
    counted = RowBudget(frames.budget.most).over(frame.lazy.select(kept))
    held = counted.collect(engine="streaming")
    return frame._replace(lazy=with_unread(frames.polars, held.lazy(), kept, frame.schema), rows=held.height)


def _expected(frames: Any, node: logical.Operator, frame: Any) -> float:
    """Return about how many rows an input has, from a sample if a filter follows its source."""
    if not (frame.is_filtered and frame.is_scan) or frame.rows < _ROWS:
        return float(frame.rows)
    sample = frames.sampled(_SAMPLE).of(node)
    left = sample.lazy.select(frames.polars.len()).collect().item()
    return float(frame.rows * left / max(1, sample.rows))


def larger_of(
    kernel: JoinKernel, inputs: Sequence[Any], most: Sequence[float], fewest: Sequence[float]
) -> int | None:
    """Return the place of the input that a filter may be worth to, if there is one; given are their rows."""
    for at in UNMATCHED.get(kernel.kind, ()):
        kind = inputs[at].schema.field(kernel.sides[at].keys[0]).type
        if (
            inputs[at].is_scan
            and most[at] >= max(_ROWS, _TIMES * fewest[1 - at])
            and (pa.types.is_integer(kind) or pa.types.is_date32(kind) or is_text(kind))
        ):
            return at
    return None
