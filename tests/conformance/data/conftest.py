"""Datasets on a node that all tests of a file share. Only public names: these files run on real Ray too."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv
import pytest
import ray
import ray.data

# Arrow opens a pipe for Ctrl-C when it first reads CSV, and keeps it: that is not what a test leaves behind.
pyarrow.csv.read_csv(pa.BufferReader(b"a\n1\n"))


@pytest.fixture(autouse=True)
def quiet_datasets(cluster: None) -> Iterator[None]:
    """Settings under which small datasets run quickly, also on Ray, whose shuffles have 200 partitions by default."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.default_hash_shuffle_parallelism = 2
    context.read_op_min_num_blocks = 2
    yield
