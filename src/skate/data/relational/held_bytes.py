"""Estimates of the memory that a stage holds. Rows of Parquet files flow through it, and stay only where a step needs all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.join import JoinKernel
from skate.data.exchange.lists import Collected, ListValues
from skate.data.plan import operators as logical
from skate.data.relational.csv_scans import is_csv_scan
from skate.data.relational.used_columns import Columns, columns_used
from skate.data.source.formats.parquet import ParquetDatasource

#: The bytes of a group for each key and each aggregation.
_CELL = 16
#: The bytes of a text in a dictionary at least, and how much larger dictionaries are before they are compressed.
_TEXT = 5
_COMPRESSION = 8
#: The bytes of a text without a dictionary at least: those of its length.
_LENGTH = 4


class Estimate(NamedTuple):
    """The bytes of rows that a plan holds, and of those that still flow through it."""

    held: float
    flowing: float


def fits(plan: logical.Operator, most: int) -> bool:
    """True if a stage holds at most some bytes, apart from the rows that its joins make."""
    used = columns_used(plan, None, True)
    # Footers are read again only if they may help.
    return any(_estimate(plan, used, as_groups).held <= most for as_groups in (False, True))


def flowing_bytes(plan: logical.Operator) -> float | None:
    """Return the bytes of the rows that flow into the last step of a plan, or None if steps before it hold any."""
    used = columns_used(plan, None, True)
    inputs = [_estimate(each, used, False) for each in plan.inputs]
    return None if any(each.held for each in inputs) else sum(each.flowing for each in inputs)


def source_bytes(source: logical.Operator, columns: Columns = None) -> int:
    """Return the bytes of the rows of a source that a stage can read, or of some of their columns."""
    if isinstance(source, logical.FromBlocks):
        return sum(bundle.bytes for bundle in source.bundles)
    if isinstance(source, logical.Read) and type(source.datasource) is ParquetDatasource:
        return source.datasource.bytes_of(None if columns is None else sorted(columns))
    if isinstance(source, logical.Read) and is_csv_scan(source):
        return source.datasource.estimate_inmemory_data_size() or 0
    return 0


def _estimate(node: logical.Operator, used: dict[int, Columns], as_groups: bool) -> Estimate:
    if not node.inputs:
        size = source_bytes(node, used[id(node)])
        flows = isinstance(node, logical.Read) and type(node.datasource) is ParquetDatasource
        return Estimate(0, size) if flows else Estimate(size, 0)
    inputs = [_estimate(each, used, as_groups) for each in node.inputs]
    held, flowing = sum(each.held for each in inputs), sum(each.flowing for each in inputs)
    if not isinstance(node, logical.Exchange):
        return Estimate(held, flowing)
    if type(node.kernel) is JoinKernel:
        looked_up = _looked_up(node.kernel, *(each.flowing for each in inputs))
        return Estimate(held + looked_up, flowing - looked_up)
    if as_groups and type(node.kernel) is AggregateKernel:
        flowing = min(flowing, _groups_bytes(node.kernel, node.inputs[0]))
    return Estimate(held + flowing, 0)


def _looked_up(kernel: JoinKernel, left: float, right: float) -> float:
    """Return the bytes of the rows that a join holds to look them up, while the others flow."""
    if kernel.kind == "inner":
        return min(left, right)
    if kernel.only is None:
        return left + right
    others = right if kernel.only == 0 else left
    return others if 2 * others <= left + right else left + right


def _groups_bytes(kernel: AggregateKernel, rows: logical.Operator) -> float:
    """Return the bytes of the groups of an aggregation, or infinity if they are not known before it runs."""
    measures = [each.measure() for each in kernel.aggregations]
    collected = {
        each.on for each, measure in zip(kernel.aggregations, measures, strict=True) if _collects(measure)
    }
    if collected and kernel.keys:
        return math.inf
    columns = [*kernel.keys, *collected]
    source = _source_of(rows, columns)
    if source is None:
        return math.inf
    paths = source.datasource.input_files()
    groups = _distinct(paths, kernel.keys) if kernel.keys else 1.0
    values = sum(_distinct(paths, [name]) for name in collected)
    return _CELL * (groups * (len(kernel.keys) + len(measures)) + 2 * values)


def _collects(measure: Any) -> bool:
    """True for measures that keep values of the rows."""
    return isinstance(measure.then if type(measure) is ListValues else measure, Collected)


def _source_of(node: logical.Operator, keys: Sequence[str]) -> Any | None:
    """Return the Parquet scan from which some columns come unchanged, or None."""
    while isinstance(node, (logical.Filter, logical.Project)):
        if isinstance(node, logical.Project):
            made = {name for name, _ in (*node.columns, *node.renames)} | {new for _, new in node.renames}
            if made & set(keys):
                return None
        (node,) = node.inputs
    plain = isinstance(node, logical.Read) and type(node.datasource) is ParquetDatasource
    return node if plain else None


def _distinct(paths: Sequence[str], keys: Sequence[str]) -> float:
    """Return how many distinct values some columns of files have together at most, as far as the footers tell."""
    lows: dict[str, list[Any]] = {name: [] for name in keys}
    highs: dict[str, list[Any]] = {name: [] for name in keys}
    texts = dict.fromkeys(keys, 0.0)
    for path in paths:
        metadata = pq.read_metadata(path)
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                name = column.path_in_schema
                if name not in texts:
                    continue
                if column.physical_type == "BYTE_ARRAY":
                    texts[name] += _texts_of(column)
                elif column.statistics is None or not column.statistics.has_min_max:
                    return math.inf
                else:
                    lows[name].append(column.statistics.min_raw)
                    highs[name].append(column.statistics.max_raw)
    count = 1.0
    for name in keys:
        if texts[name]:
            count *= texts[name] + 1
        elif lows[name] and all(isinstance(each, (bool, int)) for each in (*lows[name], *highs[name])):
            count *= int(max(highs[name])) - int(min(lows[name])) + 2
        else:
            return math.inf
    return count


def _texts_of(column: Any) -> float:
    """Return how many texts the dictionary of a column chunk has at most."""
    size: int = column.total_uncompressed_size
    if not column.has_dictionary_page or size >= _LENGTH * column.num_values:
        return math.inf
    dictionary = column.data_page_offset - column.dictionary_page_offset
    return float(min(size, _COMPRESSION * dictionary) / _TEXT)
