"""A node of two CPUs for the tests of a module, and an engine that needs nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from skate.data.llm import engines
from tests.data.llm import shouting


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """A node with two CPUs for the tests of a module."""
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()


@pytest.fixture
def shouting_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of these tests, under vLLM's name."""
    monkeypatch.setattr(engines, "_engines", {})
    engines.register_engine("vllm", shouting.ShoutingEngine, text_model=shouting.Letters, needs_gpu=False)
