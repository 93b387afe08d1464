"""Conversion of text to token counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate.data.block.names import known
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import counts_of, lists_of
from skate.data.preprocessors.hasher import simple_hash
from skate.data.preprocessors.tokenizer import TextPreprocessor

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class HashingVectorizer(TextPreprocessor):
    """Converts each text to an array of `num_features` counts; the hash of a token determines its position."""

    _is_fittable = False
    _shown = ("columns", "num_features", "tokenization_fn", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        num_features: int,
        tokenization_fn: Callable[[str], list[str]] | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        if num_features < 1:
            raise ValueError(f"num_features must be >= 1, got {num_features}")
        self.num_features = num_features

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        made = np.zeros((len(column), self.num_features), np.int64)
        places: dict[str, int] = {}
        for row, found in enumerate(self._tokens(column)):
            for token in found or ():
                place = places.get(token)
                if place is None:
                    place = places[token] = simple_hash(token, self.num_features)
                made[row, place] += 1
        return lists_of(made)


class CountVectorizer(TextPreprocessor):
    """Converts each text to an array of counts, one for each token seen at fitting, the most frequent first.

    `max_features` limits the number of tokens.
    """

    _shown = ("columns", "tokenization_fn", "max_features", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        max_features: int | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self.max_features = max_features

    def _fit(self, ds: Dataset) -> Preprocessor:
        tokens = ds.map_batches(_TokensOf(self), batch_format="pyarrow", batch_size=None)
        counts = counts_of(tokens, self.columns)
        self.stats_ = {}
        for name in self.columns:
            counted = Counter({token: count for token, count in counts[name].items() if token is not None})
            self.stats_[f"token_counts({name})"] = Counter(dict(counted.most_common(self.max_features)))
        return self

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        counted: Counter[str] = self.stats_[f"token_counts({name})"]
        places = {token: at for at, (token, _) in enumerate(counted.most_common())}
        made = np.zeros((len(column), len(places)), np.int64)
        for row, found in enumerate(self._tokens(column)):
            for token in found or ():
                place = places.get(token)
                if place is not None:
                    made[row, place] += 1
        return lists_of(made)


class _TokensOf:
    __name__ = "tokens_of"

    def __init__(self, vectorizer: TextPreprocessor) -> None:
        self.vectorizer = vectorizer

    def __call__(self, table: pa.Table) -> pa.Table:
        return pa.table(
            {
                name: pa.array(
                    self.vectorizer._tokens(table.column(known(table.column_names, name))),
                    pa.list_(pa.string()),
                )
                for name in self.vectorizer.columns
            }
        )
