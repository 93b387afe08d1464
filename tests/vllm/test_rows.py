"""Datasets through vLLM with ray.data.llm."""

from __future__ import annotations

from pathlib import Path

import skate
from skate.data.llm import build_processor, vLLMEngineProcessorConfig
from tests.vllm import models
from tests.vllm.models import text_of
from tests.vllm.serving import PROMPT


def test_rows_are_answered(tmp_path: Path) -> None:
    folder = models.text_model(tmp_path / "text")
    models.adapter(tmp_path / "adapters" / "loud", folder)
    config = vLLMEngineProcessorConfig(
        model_source=str(folder),
        engine_kwargs={**models.QUICK, "enable_lora": True},
        dynamic_lora_loading_path=str(tmp_path / "adapters"),
        batch_size=4,
        concurrency=1,
    )

    def asked(row: dict[str, object]) -> dict[str, object]:
        return {
            "messages": [{"role": "user", "content": "Hi"}],
            "model": "loud" if row["id"] == 1 else str(folder),
            "sampling_params": {"max_tokens": 8, "temperature": 0},
        }

    processor = build_processor(
        config, preprocess=asked, postprocess=lambda row: {"id": row["id"], "text": row["generated_text"]}
    )
    skate.init(num_cpus=4, log_to_driver=False)
    try:
        rows = processor(skate.data.range(6)).take_all()
    finally:
        skate.shutdown()
    found = {row["id"]: row["text"] for row in rows}
    plain, loud = (
        text_of(models.answer(folder, PROMPT, 8, adapter))
        for adapter in (None, tmp_path / "adapters" / "loud")
    )
    assert found == {number: loud if number == 1 else plain for number in range(6)}
