"""A small node for the tests of skate.util, one per module that asks for it."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator

import pytest
from waiting import Gate

import skate as ray

HERE = pathlib.Path(__file__).parent

# Workers import what the tests pass by reference, and the gates, from here.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [
        *map(str, (HERE.parent.parent, HERE.parent / "conformance")),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A node with two CPUs."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def gate(tmp_path: pathlib.Path) -> Iterator[Callable[[str], Gate]]:
    """Makes named signals between this process and tasks: ``gate("started")``."""
    made: list[Gate] = []

    def make(name: str) -> Gate:
        made.append(Gate(tmp_path / name))
        return made[-1]

    yield make
    for each in made:
        # A test that failed half way must not leave calls that hold the actors of the next one.
        each.open()
