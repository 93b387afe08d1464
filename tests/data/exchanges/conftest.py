"""One session for all tests of a file: work that takes long goes to its workers, whichever way a dataset is to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()
