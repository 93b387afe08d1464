"""Polars opens descriptors when it first reads a file, and keeps them: that is not what a test leaves behind."""

from __future__ import annotations

import io

import polars
import pyarrow as pa
import pyarrow.parquet as pq


def open_all() -> None:
    """Read something in every way in which datasets read by Polars."""
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), file)
    list(polars.scan_parquet(file.getvalue()).collect_batches(engine="streaming"))
