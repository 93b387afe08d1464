"""Rows through a real model: chats of a dataset, answered on CPUs by the embedded engine, with vLLM's config."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the embedded engine stands on transformers")

import skate
from skate.data.llm import build_processor, vLLMEngineProcessorConfig
from skate.data.llm.engine import EngineSpec
from skate.data.llm.row_engines import EmbeddedRows
from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from tests.llm import tiny
from tests.llm.asking import ask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("model"))


def wanted(folder: Path, prompts: list[str], **params: Any) -> list[str]:
    async def run() -> list[str]:
        engine = EmbeddedEngine(EngineArgs(str(folder)))
        await engine.start()
        texts = [(await ask(engine, prompt, **params)).text for prompt in prompts]
        await engine.stop()
        return texts

    return asyncio.run(run())


@pytest.mark.usefixtures("node")
def test_chats_are_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with caplog.at_level(logging.WARNING, "skate.llm"):
        processor = build_processor(
            vLLMEngineProcessorConfig(
                model_source=str(folder),
                batch_size=4,
                tokenize_stage=False,
                detokenize_stage=False,
                engine_kwargs={"max_num_seqs": 4, "num_threads": 1, "gpu_memory_utilization": 0.9},
            ),
            preprocess=lambda row: {
                "messages": [{"role": "user", "content": row["item"]}],
                "sampling_params": {"temperature": 0.0, "max_tokens": 10},
            },
            postprocess=lambda row: {
                "item": row["item"],
                "answer": row["generated_text"],
                "tokens": row["num_generated_tokens"],
            },
        )
    assert "embedded engine runs the model on the CPU" in caplog.text
    items = [f"question {number}" for number in range(10)]
    rows = {row["item"]: row for row in processor(skate.data.from_items(items)).take_all()}
    prompts = [f"<|user|>{item}\n<|assistant|>" for item in items]
    assert [rows[item]["answer"] for item in items] == wanted(folder, prompts, max_tokens=10)
    assert all(1 <= row["tokens"] <= 10 for row in rows.values())


def test_rows_fail_alone_and_have_logprobs(folder: Path) -> None:
    engine = EmbeddedRows(EngineSpec(str(folder), max_pending_requests=2))
    engine.start()
    try:
        good, long, strange, several = engine.generate(
            [
                {
                    "prompt": "ab",
                    "sampling_params": {
                        "temperature": 0.0,
                        "max_tokens": 3,
                        "logprobs": 2,
                        "stop": None,
                        "prompt_logprobs": 1,
                    },
                },
                {"prompt": "x" * 300, "sampling_params": {"max_tokens": 3}},
                {"prompt": "ab", "sampling_params": {"guess": 1}},
                {"tokenized_prompt": [1, 2], "sampling_params": {"max_tokens": 2, "n": 2}},
            ]
        )
    finally:
        engine.stop()
    assert isinstance(good, dict) and len(good["logprobs"]) == good["num_generated_tokens"] == 3
    assert good["prompt_token_ids"] and good["num_input_tokens"] == 2
    first, second = good["prompt_logprobs"]
    assert first is None and second[good["prompt_token_ids"][1]]["rank"] >= 1
    assert isinstance(long, ValueError) and "300" in str(long)
    assert isinstance(strange, ValueError) and "guess" in str(strange)
    assert isinstance(several, dict) and several["num_generated_tokens"] <= 2
    assert not engine._thread.is_alive()


def test_embeddings_of_rows(folder: Path) -> None:
    engine = EmbeddedRows(EngineSpec(str(folder), task_type="embed"))
    engine.start()
    try:
        first, second = engine.generate([{"prompt": "ab"}, {"prompt": "a longer text"}])
    finally:
        engine.stop()
    assert isinstance(first, dict) and isinstance(second, dict)
    assert len(first["embeddings"]) == 32 and first["embeddings"] != second["embeddings"]
