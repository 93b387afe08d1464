"""Networks of machines for the tests, skipped with the reason where the host cannot have them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

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


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all machines share; each has a /tmp of its own."""
    folder = Path(tempfile.mkdtemp(prefix="skate-shared-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)
