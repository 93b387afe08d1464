"""An answer without a language model: sentences of the sources, word for word, that say most about the question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from embedding import Encoder

#: Sentences of the whole answer, and of one source.
MOST, MOST_OF_ONE = 4, 2
#: A sentence further from the question than the best one by this much (cosine) is left out.
WITHIN = 0.12
#: Two sentences this near to each other (cosine) say the same.
SAME = 0.9
#: Where one sentence ends and the next begins; and how a whole one ends, which headings and pieces of code do not.
SENTENCE_BREAK = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`*(])|\n\s*\n")
WHOLE = re.compile(r"[A-Z\"'`*(].*[.!?:][\"')]*")


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line; headings, code and what is shorter than a sentence are left out."""
    found = (" ".join(each.split()) for each in SENTENCE_BREAK.split(text))
    # What announces a list or an example says something by itself only when it is long.
    return [each for each in found if len(each) >= (60 if each[-1:] == ":" else 25) and WHOLE.fullmatch(each)]


def extract(encoder: Encoder, question: str, sources: Sequence[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """Sentences of the sources (title, text), in their order, that answer a question best, each with the number of its source.

    The first comes as soon as the first source was read. A source gives its best sentences, in the order in which it says them;
    what is far from the question, and what was said before, is left out.
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
