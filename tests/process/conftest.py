"""Fixtures of the tests with real processes: programs that end with the test, even if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.programs import Program
from tests.process.standing import Node


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a driver: ``program("ray.init(START)")``; see `programs.Program`."""
    started: list[Program] = []

    def start(text: str = "", *arguments: str, **options: Any) -> Program:
        folder = options.pop("folder", tmp_path / f"program{len(started)}")
        started.append(Program(text, folder, *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a standing node that is not started yet: ``node.start()``."""
    made = Node(tmp_path / "node")
    yield made
    made.kill()


@pytest.fixture
def run(program: Callable[..., Program]) -> Callable[..., Program]:
    """Run a driver, which must succeed and leave nothing behind."""

    def to_its_end(text: str = "", *arguments: str, code: int = 0, **options: Any) -> Program:
        started = program(text, *arguments, **options)
        ended = started.end()
        assert ended == code, f"it ended with {ended}, not {code}; {started.story()}"
        started.gone()
        return started

    return to_its_end
