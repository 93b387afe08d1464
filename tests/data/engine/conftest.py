"""Datasets on a node of two CPUs that a module keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from tests.polars_descriptors import open_all

open_all()


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """A node with two CPUs for the tests of a module."""
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()


@pytest.fixture(scope="module")
def small_store() -> Iterator[None]:
    """A node whose object store has room for 80 MB."""
    skate.init(num_cpus=2, log_to_driver=False, object_store_memory=80 << 20)
    yield
    skate.shutdown()
