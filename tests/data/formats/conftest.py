"""One session per test module: tasks that read and write run in two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv
import pytest

import skate
from tests.polars_descriptors import open_all

open_all()

# Arrow opens a pipe for Ctrl-C when it first reads CSV, and keeps it: that is not what a test leaves behind.
pyarrow.csv.read_csv(pa.BufferReader(b"a\n1\n"))


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """A node of two CPUs."""
    skate.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    skate.shutdown()
