"""Datasets so small that only these tests give them to Polars. One that takes long starts a session, which ends here."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv
import pytest

import skate
from skate.data.relational import stages
from tests.polars_descriptors import open_all

open_all()
# Arrow's CSV reader opens a pipe for signals once and for all.
pyarrow.csv.read_csv(pa.BufferReader(b"a\n1\n"))


@pytest.fixture(scope="module", autouse=True)
def any_size() -> Iterator[None]:
    before = stages._BYTES, stages._BYTES_TO_IMPORT
    stages._BYTES = stages._BYTES_TO_IMPORT = 0
    yield
    stages._BYTES, stages._BYTES_TO_IMPORT = before
    skate.shutdown()
