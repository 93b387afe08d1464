"""Prompts and tokens from transformers' tokenizers."""

from __future__ import annotations

from typing import Any

from skate.installed import require


class TransformersText:
    """The tokenizer that comes with a model."""

    def __init__(self, model: str, trust_remote_code: bool) -> None:
        transformers = require("transformers", f"the tokenizer of {model}")
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            model, trust_remote_code=trust_remote_code
        )

    def chat(self, messages: list[dict[str, Any]], template: str | None, kwargs: dict[str, Any]) -> str:
        """Format messages as one prompt; if the last message is not the user's, the model continues it."""
        from_user = messages[-1]["role"] == "user"
        prompt: str = self._tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            chat_template=template,
            add_generation_prompt=from_user,
            continue_final_message=not from_user,
            **kwargs,
        )
        return prompt

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the tokens of each text."""
        tokens: list[list[int]] = self._tokenizer(texts)["input_ids"]
        return tokens

    def decode(self, tokens: list[list[int]]) -> list[str]:
        """Return the text of each list of tokens."""
        texts: list[str] = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return texts


def load(model: str, trust_remote_code: bool) -> TransformersText:
    """Load the tokenizer of a model. Raises ImportError without transformers."""
    return TransformersText(model, trust_remote_code)
