"""A model's tokenizer: transformers' own, with its decoder called directly, because it is called twice per token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from skate.installed import require
from skate.llm.errors import BadRequest


class TransformersText:
    """The tokenizer that comes with a model. Raises ImportError without transformers."""

    def __init__(self, model: str, trust_remote_code: bool = False) -> None:
        transformers = require("transformers", f"the tokenizer of {model}")
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            model, trust_remote_code=trust_remote_code, local_files_only=os.path.isdir(model)
        )
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        self._fast = None if fast is None else fast.decode
        #: Characters that one token stands for at most; None where that cannot be said.
        self.longest_token: int | None = None if fast is None else _longest(fast)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text."""
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return tokens

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:
        """The text of tokens."""
        if self._fast is not None:
            text: str = self._fast(tokens, skip_special_tokens=skip_special)
            return text
        return str(
            self.tokenizer.decode(
                tokens, skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
            )
        )

    def chat(self, messages: Sequence[dict[str, Any]], template: str | None = None, **options: Any) -> str:
        """Messages as one prompt by the model's Jinja template, or the one that is given."""
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
        # A template is a program and may raise anything, mostly over the roles it knows.
        except Exception as error:
            raise BadRequest(f"the chat template rejects these messages: {error}", "messages") from error
        return prompt

    def token(self, token: int) -> str:
        """The text of one token alone."""
        return self.decode([token], skip_special=False)

    def token_bytes(self, token: int) -> list[int] | None:
        """The bytes of a token; for tokenizers of bytes also those of a part of a character."""
        text = self.token(token)
        if "\ufffd" not in text:
            return list(text.encode())
        piece = self.tokenizer.convert_ids_to_tokens(token)
        table = _bytes_of_letters()
        if piece and all(letter in table for letter in piece):
            return [table[letter] for letter in piece]
        return None


def _longest(fast: Any) -> int:
    """The length of the longest token, from the vocabulary; several times that with normalizers or unknown words."""
    longest = max(map(len, fast.get_vocab(True)), default=1)
    whole = type(fast.decoder).__name__ == "ByteLevel" and fast.normalizer is None
    return int(longest) if whole else int(longest) * 8


_table: dict[str, int] = {}


def _bytes_of_letters() -> dict[str, int]:
    """The letters by which byte-level tokenizers represent bytes: printable Latin-1 as itself, the rest from 256 on."""
    if not _table:
        shifted = 256
        for byte in range(256):
            if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
                _table[chr(byte)] = byte
            else:
                _table[chr(shifted)] = byte
                shifted += 1
    return _table
