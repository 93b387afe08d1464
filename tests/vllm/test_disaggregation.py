"""Prefill and decode apart on CPUs, with NIXL between the engines."""

from __future__ import annotations

from pathlib import Path

from skate.serve.llm import build_pd_openai_app
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.serving import GREEDY


def test_prefill_and_decode_in_replicas_of_their_own(tmp_path: Path) -> None:
    folder = models.text_model(tmp_path / "text")
    configs = [
        serving.config(
            folder,
            engine_kwargs={
                "enable_prefix_caching": False,
                "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
            },
        )
        for _ in range(2)
    ]
    prompt = "y" * 200  # whose answer has no broken characters
    wanted = text_of(models.answer(folder, prompt, 12))
    app = build_pd_openai_app({"prefill_config": configs[0], "decode_config": configs[1]})
    with serving.served(app, cpus=6) as url, serving.client(url) as client:
        found = client.completions.create(prompt=prompt, max_tokens=12, **GREEDY)
        assert found.choices[0].text == wanted
        # Decode fetched the keys of the prompt's whole blocks from prefill, and computed only the rest.
        details = found.usage.prompt_tokens_details
        assert details is not None and details.cached_tokens >= 100
