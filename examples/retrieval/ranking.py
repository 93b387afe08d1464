"""Relevance of passages to a question, scored in three ways, and the combination of the three. Pure functions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

WORD = re.compile(r"[a-z0-9]+")
#: Stop words.
_COMMON = """
    a an and are as at be by can do does for from get give has have how i if in into is it its make me my
    of on one or please python s so tell that the there this to use used using way what when where which
    who why will with would you
"""
COMMON = frozenset(_COMMON.split())


def terms(text: str) -> list[str]:
    """Return the searchable words of a text, in lower case and in order, without a plural s."""
    found = (word for word in WORD.findall(text.lower()) if word not in COMMON)
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]


class Words:
    """Okapi BM25 (Robertson and Zaragoza, 2009): shared words count, rare ones more, and less in a long passage."""

    K1, B = 1.2, 0.75

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(terms(text)) for text in texts]
        self._mean = sum(map(Counter.total, self._counts)) / max(1, len(texts))
        holders = Counter(word for counts in self._counts for word in counts)
        self._weights = {
            word: math.log(1 + (len(texts) - held + 0.5) / (held + 0.5)) for word, held in holders.items()
        }

    def score(self, question: str, which: int) -> float:
        """Score one of the texts by its words; 0 if it shares none."""
        counts, total = self._counts[which], 0.0
        for word in set(terms(question)):
            if count := counts.get(word, 0):
                length = 1 - self.B + self.B * counts.total() / self._mean
                total += self._weights[word] * count * (self.K1 + 1) / (count + self.K1 * length)
        return total

    def best(self, question: str, most: int) -> list[int]:
        """Return the texts with the best scores for a question, best first, without those that share nothing."""
        scores = {which: self.score(question, which) for which in range(len(self._counts))}
        found = sorted(
            (which for which, score in scores.items() if score > 0), key=lambda which: -scores[which]
        )
        return found[:most]


def nearest(questions: np.ndarray, vectors: np.ndarray, most: int) -> list[list[tuple[int, float]]]:
    """Return for each question the passages with the largest cosines, best first, with their cosines. All
    vectors have length 1."""
    similar = questions @ vectors.T
    most = min(most, len(vectors))
    chosen = (
        np.argpartition(-similar, most - 1, axis=1)[:, :most] if most else np.zeros((len(questions), 0), int)
    )
    return [
        sorted(((int(which), float(row[which])) for which in some), key=lambda pair: (-pair[1], pair[0]))
        for row, some in zip(similar, chosen, strict=True)
    ]


def max_sim(question: np.ndarray, passage: np.ndarray) -> float:
    """Late interaction as in ColBERT (Khattab and Zaharia, 2020): the mean, over the question's tokens, of the largest cosine
    with a token of the passage."""
    if not len(question) or not len(passage):
        return 0.0
    return float((question @ passage.T).max(axis=1).mean())


def fused(
    orders: Sequence[Sequence[int]], weights: Sequence[float] | None = None, k: int = 60
) -> dict[int, float]:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009): items ranked first by several orders
    score highest, at most 1."""
    weights = weights or [1.0] * len(orders)
    best = sum(weights) / (k + 1)
    scores: dict[int, float] = {}
    for order, weight in zip(orders, weights, strict=True):
        for rank, which in enumerate(order, start=1):
            scores[which] = scores.get(which, 0.0) + weight / (k + rank) / best
    return scores
