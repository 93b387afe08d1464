"""Stands in for the tokenizer that a block would download: words become numbers, padded or cut to a length."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np


class AutoTokenizer:
    """Numbers for words."""

    @classmethod
    def from_pretrained(cls, name: str) -> AutoTokenizer:
        return cls()

    def __call__(self, texts: list[str], *, max_length: int, **how: Any) -> dict[str, np.ndarray]:
        assert how == {"padding": "max_length", "truncation": True, "return_tensors": "np"}, how
        ids = np.zeros((len(texts), max_length), dtype=np.int64)
        for row, text in enumerate(texts):
            numbers = [zlib.crc32(word.encode()) % 32000 for word in text.split()][:max_length]
            ids[row, : len(numbers)] = numbers
        return {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)}
