"""Answers without a language model: verbatim sentences of the sources that are most relevant to the question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from embedding import Encoder

#: The most sentences of the whole answer, and of one source.
MOST, MOST_OF_ONE = 4, 2
#: A sentence whose cosine with the question is lower than the best one's by this much is dropped.
WITHIN = 0.12
#: Two sentences with at least this cosine count as duplicates.
SAME = 0.9
#: The boundary between sentences, and the end of a complete sentence, which headings and code lack.
SENTENCE_BREAK = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`*(])|\n\s*\n")
WHOLE = re.compile(r"[A-Z\"'`*(].*[.!?:][\"')]*")


def sentences(text: str) -> list[str]:
    """Split a text into sentences, each on one line; headings, code and fragments are dropped."""
    found = (" ".join(each.split()) for each in SENTENCE_BREAK.split(text))
    # A sentence that introduces a list or an example is useful alone only if it is long.
    return [each for each in found if len(each) >= (60 if each[-1:] == ":" else 25) and WHOLE.fullmatch(each)]


def extract(encoder: Encoder, question: str, sources: Sequence[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """Yield the sentences of the sources (title, text) that answer a question best, in order, each with the
    number of its source.

    The first is yielded as soon as the first source has been read. Each source contributes its best
    sentences, in their original order; irrelevant and duplicate ones are dropped.
    """
    asked = encoder.vectors([question])[0]
    said: list[np.ndarray] = []
    best = -1.0
    for number, (title, text) in enumerate(sources):
        candidates = sentences(text)
        if not candidates:
            continue
        vectors = encoder.vectors([f"{title}: {each}" for each in candidates])
        fit = vectors @ asked
        best = max(best, float(fit.max()))
        chosen: list[int] = []
        for which in np.argsort(-fit)[:MOST_OF_ONE]:
            new = all(float(vectors[which] @ other) < SAME for other in said)
            if new and fit[which] > best - WITHIN and len(said) < MOST:
                chosen.append(int(which))
                said.append(vectors[which])
        for which in sorted(chosen):
            yield candidates[which], number
