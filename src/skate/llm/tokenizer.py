"""A model's tokenizer from transformers. Its decoder is called directly, because it runs twice per token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from skate.installed import require
from skate.llm.errors import BadRequest


class TransformersText:
    """The tokenizer of a model. Raises ImportError if transformers is not installed."""

    def __init__(self, model: str, trust_remote_code: bool = False) -> None:
        transformers = require("transformers", f"the tokenizer of {model}")
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            model, trust_remote_code=trust_remote_code, local_files_only=os.path.isdir(model)
        )
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        self._fast = None if fast is None else fast.decode
        #: The most characters that one token represents; None if that is unknown.
        self.longest_token: int | None = None if fast is None else _longest(fast)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Return the tokens of a text."""
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return tokens

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:
        """Return the text of tokens."""
        if self._fast is not None:
            text: str = self._fast(tokens, skip_special_tokens=skip_special)
            return text
        return str(
            self.tokenizer.decode(
                tokens, skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
            )
        )

    def chat(self, messages: Sequence[dict[str, Any]], template: str | None = None, **options: Any) -> str:
        """Return messages as one prompt, formatted by the given Jinja template or the model's."""
        if template is None and not getattr(self.tokenizer, "chat_template", None):
            raise BadRequest(
                "the tokenizer of this model has no chat template; use /v1/completions, or save the model with a "
                "chat_template",
                "messages",
            )
        options.setdefault("add_generation_prompt", not options.get("continue_final_message"))
        try:
            prompt: str = self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, chat_template=template, **options
            )
        # A template is a program and may raise anything, most often for roles that it does not support.
        except Exception as error:
            raise BadRequest(f"the chat template rejects these messages: {error}", "messages") from error
        return prompt

    def token(self, token: int) -> str:
        """Return the text of a single token."""
        return self.decode([token], skip_special=False)

    def token_bytes(self, token: int) -> list[int] | None:
        """Return the bytes of a token. Byte-level tokenizers also have tokens for parts of a character."""
        text = self.token(token)
        if "\ufffd" not in text:
            return list(text.encode())
        piece = self.tokenizer.convert_ids_to_tokens(token)
        table = _bytes_of_letters()
        if piece and all(letter in table for letter in piece):
            return [table[letter] for letter in piece]
        return None


def _longest(fast: Any) -> int:
    """Return the length of the vocabulary's longest token, or eight times it if a token may stand for longer text."""
    longest = max(map(len, fast.get_vocab(True)), default=1)
    whole = type(fast.decoder).__name__ == "ByteLevel" and fast.normalizer is None
    return int(longest) if whole else int(longest) * 8


_table: dict[str, int] = {}


def _bytes_of_letters() -> dict[str, int]:
    """Return the letters that byte-level tokenizers use for bytes: printable Latin-1 as is, the others from 256 up."""
    if not _table:
        shifted = 256
        for byte in range(256):
            if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
                _table[chr(byte)] = byte
            else:
                _table[chr(shifted)] = byte
                shifted += 1
    return _table
