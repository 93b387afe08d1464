"""Datasets as the data frames of other systems; each needs that system's package."""

from __future__ import annotations

from typing import Any

from skate.data import block as blocks
from skate.data.dataset.base import DatasetBase
from skate.data.exceptions import omit_traceback_stdout
from skate.data.random_access_dataset import RandomAccessDataset
from skate.installed import require


class Converting(DatasetBase):
    """Datasets as the data frames of other systems, and as rows by key."""

    @omit_traceback_stdout
    def to_dask(self, meta: Any = None, verify_meta: bool = True) -> Any:
        """Convert to a `dask.dataframe.DataFrame` with one partition per block; needs dask. Computes the
        blocks immediately."""
        delayed = require("dask", "to_dask", "dask[dataframe]").delayed
        frames = require("dask.dataframe", "to_dask", "dask[dataframe]")
        parts = [delayed(blocks.to_batch)(table, "pandas") for table in self._tables()]
        if not parts:
            import pandas as pd  # as dask does

            return frames.from_pandas(pd.DataFrame(), npartitions=1)
        return frames.from_delayed(parts, meta=meta, verify_meta=verify_meta)

    @omit_traceback_stdout
    def to_daft(self) -> Any:
        """Convert to a `daft.DataFrame`; needs daft."""
        return require("daft", "to_daft", "daft").from_arrow(blocks.concat(list(self._tables())))

    def to_modin(self) -> Any:
        """Convert to a `modin.pandas.DataFrame`; needs modin."""
        return require("modin.pandas", "to_modin", "modin").DataFrame(self._frame())

    def to_spark(self, spark: Any) -> Any:
        """Convert to a `pyspark.sql.DataFrame`; all rows pass through this process. Needs pyspark."""
        require("pyspark", "to_spark", "pyspark")
        return spark.createDataFrame(self._frame())

    def to_mars(self) -> Any:
        """Convert to a `mars.dataframe.DataFrame`; needs mars, which is no longer maintained."""
        return require("mars.dataframe", "to_mars", "pymars").DataFrame(self._frame())

    @omit_traceback_stdout
    def _frame(self) -> Any:
        return blocks.to_batch(blocks.concat(list(self._tables())), "pandas")

    def to_random_access_dataset(self, key: str, num_workers: int | None = None) -> RandomAccessDataset:
        """Return the rows sorted and indexed by a column, held by `num_workers` actors: see `RandomAccessDataset`."""
        made: Any = self
        return RandomAccessDataset(made, key, num_workers)
