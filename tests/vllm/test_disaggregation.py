"""Prefill and decode apart on CPUs, with NIXL between the engines."""

from __future__ import annotations

from pathlib import Path

from skate.serve.llm import build_pd_openai_app
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.serving import GREEDY


def test_prefill_and_decode_in_replicas_of_their_own(tmp_path: Path) -> None:
    """The two have different weights, so that the answer shows whose keys the decoder read."""
    folders = [models.text_model(tmp_path / str(seed), seed=seed) for seed in (4, 1)]
    configs = [
        serving.config(
            folder,
            engine_kwargs={
                "enable_prefix_caching": False,
                "kv_transfer_config": {
                    "kv_connector": "NixlConnector",
                    "kv_role": role,
                    # NIXL compares the names of the models.
                    "kv_connector_extra_config": {"enforce_handshake_compat": False},
                },
            },
        )
        for folder, role in zip(folders, ("kv_producer", "kv_consumer"), strict=True)
    ]
    prompt = "y" * 200  # whose answer has no broken characters
    wanted = text_of(models.answer_after(*folders, prompt, 12))
    assert wanted not in [text_of(models.answer(each, prompt, 12)) for each in folders]
    app = build_pd_openai_app({"prefill_config": configs[0], "decode_config": configs[1]})
    with serving.served(app, cpus=6) as url, serving.client(url) as client:
        found = client.completions.create(prompt=prompt, max_tokens=12, **GREEDY)
        assert found.choices[0].text == wanted
        chunks = client.completions.create(prompt=prompt, max_tokens=12, stream=True, **GREEDY)
        assert "".join(each.choices[0].text for each in chunks if each.choices) == wanted
