"""Models divided over several workers on CPUs, and what vLLM says of groups of data parallel replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skate.serve.llm import build_dp_openai_app, build_openai_app
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.serving import GREEDY, PROMPT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.text_model(tmp_path_factory.mktemp("model") / "text")


@pytest.mark.parametrize("size", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_a_model_over_two_workers_answers_as_one(folder: Path, size: str) -> None:
    app = build_openai_app({"llm_configs": [serving.config(folder, engine_kwargs={size: 2})]})
    with serving.served(app) as url, serving.client(url) as client:
        found = client.completions.create(prompt=PROMPT, max_tokens=12, **GREEDY)
        assert found.choices[0].text == text_of(models.answer(folder, PROMPT, 12))


def test_vllm_refuses_groups_for_models_without_experts(folder: Path) -> None:
    config: dict[str, Any] = serving.config(folder, engine_kwargs={"data_parallel_size": 2})
    app = build_dp_openai_app({"llm_config": config})
    reason = "Non-MoE models do not support external data parallel"
    with pytest.raises(RuntimeError, match=reason), serving.served(app):
        pass
