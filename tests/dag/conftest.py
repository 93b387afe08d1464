"""A small node for the tests of skate.dag."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate as ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two CPUs, in local mode: what graphs do is the same either way."""
    ray.init(num_cpus=2, local_mode=True)
    yield
    ray.shutdown()
