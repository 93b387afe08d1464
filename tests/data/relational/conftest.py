"""Datasets so small that only these tests give them to Polars; they run in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from skate.data.relational import stages


@pytest.fixture(scope="package", autouse=True)
def any_size() -> Iterator[None]:
    before = stages._BYTES, stages._BYTES_TO_IMPORT
    stages._BYTES = stages._BYTES_TO_IMPORT = 0
    yield
    stages._BYTES, stages._BYTES_TO_IMPORT = before
    skate.shutdown()
