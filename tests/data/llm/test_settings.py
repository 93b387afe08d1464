"""Settings: types, defaults, bounds, and error messages."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import pytest

from skate.data.llm import (
    HttpRequestProcessorConfig,
    ProcessorConfig,
    TokenizerStageConfig,
    vLLMEngineProcessorConfig,
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": "many"}, "batch_size of ProcessorConfig must be an integer, got 'many'"),
        ({"batch_size": 1.5}, "an integer, got 1.5"),
        ({"batch_size": True}, "an integer, got True"),
        ({"concurrency": (1, 2, 3)}, "an integer or"),
        ({"concurrency": (3, 2)}, "each 1 or more, not"),
        ({"accelerator_type": 4}, "a string or None, got 4"),
        ({"batchsize": 4}, "no field batchsize; did you mean batch_size?"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        ProcessorConfig(**given)
    assert message in str(caught.value)


def test_numbers_may_be_text_and_pairs_lists() -> None:
    found = ProcessorConfig(batch_size="8", concurrency=[1, 2])
    assert (found.batch_size, found.concurrency) == (8, (1, 2))


def test_a_value_that_was_refused_is_not_kept() -> None:
    found = ProcessorConfig()
    with pytest.raises(ValueError):
        found.concurrency = 0
    assert found.concurrency == 1


def test_a_default_is_not_shared() -> None:
    first = vLLMEngineProcessorConfig(model_source="m")
    first.engine_kwargs["seed"] = 1
    assert "seed" not in vLLMEngineProcessorConfig(model_source="m").engine_kwargs


def test_copies_dumps_and_files(tmp_path: Path) -> None:
    found = HttpRequestProcessorConfig(url="http://x", qps=3)
    assert found.model_copy(update={"qps": None}).qps is None
    assert HttpRequestProcessorConfig.model_validate(found.model_dump()) == found
    pytest.importorskip("yaml")
    (tmp_path / "c.yaml").write_text("url: http://x\nqps: 3\n")
    assert HttpRequestProcessorConfig.from_file(str(tmp_path / "c.yaml")) == found


def test_signatures_name_the_fields() -> None:
    names = list(inspect.signature(TokenizerStageConfig).parameters)
    assert names == [
        "enabled",
        "batch_size",
        "concurrency",
        "runtime_env",
        "num_cpus",
        "memory",
        "model_source",
    ]


def test_too_few_batches_in_flight_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="skate.data.llm"):
        vLLMEngineProcessorConfig(model_source="m", max_tasks_in_flight_per_actor=2)
    assert "max_tasks_in_flight_per_actor=2" in caplog.text
