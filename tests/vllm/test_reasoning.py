"""Reasoning beside the content of answers, found by a parser of vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skate.serve.llm import build_openai_app
from tests.vllm import models, serving
from tests.vllm.serving import GREEDY, HELLO

#: Tokens of the model's tokenizer.
THINK, END = 257, 258


def test_reasoning_is_apart_from_the_content(tmp_path: Path) -> None:
    """The form makes the model write both; the bias, the tokens that the parser looks for."""
    config = serving.config(
        models.reasoning_model(tmp_path / "model"),
        engine_kwargs={
            "reasoning_parser": "qwen3",
            "structured_outputs_config": {"enable_in_reasoning": True},
        },
    )
    form = {"structured_outputs": {"regex": "<think>[a-c]{5}</think>[x-z]{4}"}}
    given: dict[str, Any] = {
        "messages": HELLO,
        "max_tokens": 30,
        "logit_bias": {str(THINK): 100, str(END): 100},
        "extra_body": form,
        **GREEDY,
    }
    app = build_openai_app({"llm_configs": [config]})
    with serving.served(app) as url, serving.client(url) as client:
        whole = client.chat.completions.create(**given).choices[0].message
        assert len(whole.reasoning) == 5 and set(whole.reasoning) <= set("abc")
        assert len(whole.content) == 4 and set(whole.content) <= set("xyz")
        parts = {"reasoning": "", "content": ""}
        for chunk in client.chat.completions.create(stream=True, **given):
            for choice in chunk.choices:
                for name in parts:
                    parts[name] += getattr(choice.delta, name, None) or ""
        assert parts == {"reasoning": whole.reasoning, "content": whole.content}
        plain = client.completions.create(
            prompt="ab", max_tokens=30, extra_body=form, logit_bias=given["logit_bias"], **GREEDY
        )
        assert plain.choices[0].text.startswith("<think>")
