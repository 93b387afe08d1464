"""Tokenization of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import columns as values_of
from skate.data.preprocessors.base import ColumnPreprocessor


def simple_split_tokenizer(value: str) -> list[str]:
    """Split a text at single spaces."""
    return value.split(" ")


class TextPreprocessor(ColumnPreprocessor):
    """Base of preprocessors that start by splitting text into tokens."""

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer

    def _tokens(self, column: pa.ChunkedArray) -> list[list[str] | None]:
        tokenize = self.tokenization_fn
        return [None if text is None else list(tokenize(text)) for text in column.to_pylist()]

    def __repr__(self) -> str:
        name = getattr(self.tokenization_fn, "__name__", repr(self.tokenization_fn))
        shown = [
            f"{each}={name if each == 'tokenization_fn' else repr(getattr(self, each))}"
            for each in self._shown
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Tokenizer(TextPreprocessor):
    """Splits each text into a list of tokens, by default at single spaces."""

    _is_fittable = False
    _shown = ("columns", "tokenization_fn", "output_columns")

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        return values_of.from_values(self._tokens(column))
