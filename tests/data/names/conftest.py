"""One session for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from skate.data import DataContext


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()


@pytest.fixture
def context() -> Iterator[DataContext]:
    """Settings that a test may change."""
    settings = DataContext.get_current().copy()
    settings.enable_progress_bars = False
    with DataContext.current(settings):
        yield settings
