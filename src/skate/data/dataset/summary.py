"""Statistics of the columns of a dataset, chosen by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data import aggregate as aggregates
from skate.data.block.names import known
from skate.data.dataset.base import DatasetBase
from skate.data.datatype import DataType, TypeCategory

if TYPE_CHECKING:
    from skate.data.dataset.schema import Schema

_TOP = 10
Aggregations = Callable[[str], list[aggregates.AggregateFnV2]]


@dataclass
class DatasetSummary:
    """Statistics of columns.

    Attributes:
        values: by column, then by name of the statistic.
        dataset_schema: the schema of the dataset.
        columns: the columns that have statistics.
    """

    STATISTIC_COLUMN = "statistic"

    values: dict[str, dict[str, Any]]
    dataset_schema: Schema | None
    columns: list[str]

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per statistic, sorted by name, and one column per column."""
        import pandas as pd  # only needed for frames

        names = sorted({name for found in self.values.values() for name in found})
        frame: dict[str, list[Any]] = {self.STATISTIC_COLUMN: names}
        for column, found in self.values.items():
            frame[column] = [found.get(name) for name in names]
        return pd.DataFrame(frame)

    def get_column_stats(self, column: str) -> Any:
        """Return a DataFrame of "statistic" and "value" for one column. Raises KeyError for a column without
        statistics."""
        known(list(self.values), column)
        frame = self.to_pandas()[[self.STATISTIC_COLUMN, column]]
        return frame.rename(columns={column: "value"})

    def __repr__(self) -> str:
        return f"DatasetSummary of {len(self.columns)} columns\n{self.to_pandas().to_string(index=False)}"


class Summarizing(DatasetBase):
    """Methods that compute statistics of columns."""

    def summary(
        self,
        columns: list[str] | None = None,
        override_dtype_agg_mapping: Mapping[DataType | TypeCategory | str, Aggregations] | None = None,
    ) -> DatasetSummary:
        """Compute statistics of columns, chosen by type; runs the dataset once.

        Numbers and booleans: count, mean, min, max, std, approx_quantile (the median), missing_pct, zero_pct.
        Times: count, min, max, missing_pct. Columns of nulls: count. All others: count, missing_pct, and approx_topk,
        the ten most frequent values.

        Args:
            columns: the columns to include; all by default.
            override_dtype_agg_mapping: other aggregations for a type or category, by a function of a column's name.

        Raises an error that is both a KeyError and a ValueError for an unknown column.
        """
        dataset: Any = self
        schema: Schema | None = dataset.schema()
        present = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
        chosen = list(present) if columns is None else list(columns)
        for name in chosen:
            known(list(present), name)
        wanted = {
            name: _aggregations(name, present[name], override_dtype_agg_mapping or {}) for name in chosen
        }
        values: dict[str, dict[str, Any]] = {name: {} for name in chosen}
        if any(wanted.values()):
            found = dataset._figures(*(each for many in wanted.values() for each in many))
            for name, many in wanted.items():
                for each in many:
                    values[name].update(_entries(each._agg_name, found[each.name]))
        return DatasetSummary(values, schema, chosen)


def _aggregations(
    name: str, kind: pa.DataType, override: Mapping[DataType | TypeCategory | str, Aggregations]
) -> list[aggregates.AggregateFnV2]:
    dtype = DataType.from_arrow(kind)
    for overridden, make in override.items():
        if dtype == overridden if isinstance(overridden, DataType) else dtype.is_of(overridden):
            return make(name)
    counted: list[aggregates.AggregateFnV2] = [aggregates.Count(on=name, ignore_nulls=False)]
    if pa.types.is_null(kind):
        return counted
    missing = aggregates.MissingValuePercentage(on=name)
    is_number = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )
    if is_number:
        ends = [aggregates.Min(on=name), aggregates.Max(on=name)]
        spread = [
            aggregates.Mean(on=name),
            aggregates.Std(on=name, ddof=0),
            aggregates.ApproximateQuantile(on=name, quantiles=[0.5]),
        ]
        return [*counted, *ends, *spread, missing, aggregates.ZeroPercentage(on=name)]
    if pa.types.is_temporal(kind):
        return [*counted, aggregates.Min(on=name), aggregates.Max(on=name), missing]
    return [*counted, missing, aggregates.ApproximateTopK(on=name, k=_TOP)]


def _entries(statistic: str, value: Any) -> dict[str, Any]:
    """Return a statistic with several values as one entry per value."""
    if statistic.startswith("approx_") and (value is None or isinstance(value, list)):
        return {f"{statistic}[{index}]": each for index, each in enumerate(value or [])}
    return {statistic: value}
