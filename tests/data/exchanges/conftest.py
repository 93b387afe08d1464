"""One session for all tests of a file: long work goes to its workers, however the dataset runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()
