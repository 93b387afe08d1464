"""Networks of machines for the tests, skipped with the reason where the host cannot have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces import Network, why_not


@pytest.fixture
def network() -> Iterator[Callable[..., Network]]:
    """Make a network: ``network(3)``, ``network(2, taps=True)``. It ends with the test."""
    if reason := why_not():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Network(*args, **options))


@pytest.fixture
def cluster(network: Callable[..., Network]) -> Cluster:
    """Return a cluster of four machines, on which nothing runs yet."""
    return Cluster(network(4))
