"""Batches drawn at random from a buffer of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from skate.data.block import concat
from skate.data.block.batcher import batches_of


def shuffled(
    given: Iterable[pa.Table], size: int, buffer_rows: int, seed: int | None, drop_last: bool = False
) -> Iterator[pa.Table]:
    """Yield batches of `size` rows drawn at random from a buffer of at least `buffer_rows`, as long as there
    are that many.

    A full buffer is shuffled as a whole and emptied down to its least size, so each row is copied about twice.
    """
    return batches_of(_windows(given, size, buffer_rows, np.random.default_rng(seed)), size, drop_last)


def _windows(
    given: Iterable[pa.Table], size: int, least: int, random: np.random.Generator
) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = 0
    wanted = max(2 * least, least + size)
    for table in given:
        if not table.num_rows:
            continue
        held.append(table)
        rows += table.num_rows
        if rows < wanted:
            continue
        mixed = _mixed(held, random)
        yield mixed.slice(0, rows - least)
        held = [mixed.slice(rows - least)]
        rows = least
    if rows:
        yield _mixed(held, random)


def _mixed(tables: list[pa.Table], random: np.random.Generator) -> pa.Table:
    whole = concat(tables)
    return whole.take(pa.array(random.permutation(whole.num_rows)))
