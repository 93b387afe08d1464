"""An engine for tests: it answers a prompt by the same in capitals, and its tokens are letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.data.llm.engine import EngineSpec


class ShoutingEngine:
    """Returns a prompt in upper case, up to `max_tokens` letters; prompts with "bad" in them fail."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.started = False

    def start(self) -> None:
        """Ready."""
        if self.spec.model == "broken":
            raise RuntimeError("the model's file is broken")
        self.started = True

    def generate(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any] | Exception]:
        """One answer for each row."""
        assert self.started
        return [self._one(row) for row in rows]

    def _one(self, row: dict[str, Any]) -> dict[str, Any] | Exception:
        tokens = row.get("tokenized_prompt") or [ord(each) for each in row["prompt"]]
        text = "".join(map(chr, tokens))
        if "bad" in text:
            return ValueError("a bad prompt")
        if self.spec.task_type == "embed":
            return {"embeddings": [float(len(text)), 1.0]}
        made = [ord(each) for each in text.upper()][: row["sampling_params"]["max_tokens"]]
        return {
            "generated_tokens": made,
            "generated_text": "".join(map(chr, made)),
            "num_generated_tokens": len(made),
            "num_input_tokens": len(tokens),
            "prompt_token_ids": list(tokens),
        }

    def stop(self) -> None:
        """Nothing to give back."""


class Letters:
    """A tokenizer with a token for each letter."""

    def __init__(self, model: str, trust_remote_code: bool) -> None:
        self.model = model

    def chat(self, messages: list[dict[str, Any]], template: str | None, kwargs: dict[str, Any]) -> str:
        """Contents of the messages side by side."""
        return (template or kwargs.get("joint", "|")).join(each["content"] for each in messages)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Letters as numbers."""
        return [[ord(each) for each in text] for text in texts]

    def decode(self, tokens: list[list[int]]) -> list[str]:
        """Numbers as letters."""
        return ["".join(map(chr, each)) for each in tokens]
