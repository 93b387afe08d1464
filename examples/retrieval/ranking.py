"""Relevance of passages to a question: by words, by popularity, by cosine. Pure functions."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np
import snowballstemmer
from passages import Passage

WORD = re.compile(r"[a-z]+|[0-9]+")
#: The boundary between the words of a name such as ZipFile.
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Stop words.
_COMMON = """
    a all an and are as at be by can do does for from get give has have how i if in into is it its make me my
    of on one or please python s so some something tell that the there this to use used using way what when
    where which who why will with would you
"""
COMMON = frozenset(_COMMON.split())
#: Words of beginners, and those that documentation has instead.
_SYNONYMS = """
    folder: directory dir          directory: dir             delete: remove unlink
    length: len size number        ask: prompt input          user: input
    convert: return                calculate: return          compute: return
    integer: int                   string: str                character: str
    dictionary: dict               wait: sleep suspend delay  now: current
    today: current                 parse: deserialize decode load
    pick: choose choice            loop: iterate iterable     repeat: iterate loop
    together: pair                 add: append sum            total: sum
    item: element                  element: item              catch: handle except
    command: process               show: print
"""
#: Weights of a word in the parts of a passage: the last part of its title, the parts before it, the summary, the text.
LAST, BEFORE, SUMMARY, TEXT = 3.0, 0.5, 3.0, 0.5
#: What a page gains if its name consists of the question's words, and for each factor e in its number of uses.
NAMED, POPULAR = 0.4, 0.15
#: The weight of the cosine, from -1 to 1, beside the score by words, from 0 to about 2.
COSINE = 2.0

_STEMMER = snowballstemmer.stemmer("english")


def terms(text: str) -> list[str]:
    """Return the searchable words of a text, in order and without their endings (Porter's English stemmer)."""
    found = WORD.findall(HUMP.sub(" ", text).lower())
    return [stem(word) for word in found if word not in COMMON]


@cache
def stem(word: str) -> str:
    """Return a word without its ending: files and filed are file."""
    return str(_STEMMER.stemWord(word))


def _synonyms() -> dict[str, list[str]]:
    pairs = re.findall(r"(\w+): ((?:\w+ ?)+)", _SYNONYMS)
    return {stem(word): [stem(each) for each in others.split()] for word, others in pairs}


SYNONYMS = _synonyms()


class Words:
    """Okapi BM25 with weighted fields (Robertson, Zaragoza and Taylor, 2004): shared words count, rare ones more, those of the
    title more than those of the text, and less in a long passage. Synonyms count like the word itself."""

    K1, B = 1.2, 0.5

    def __init__(self, passages: Sequence[Passage]) -> None:
        counts = [_weighted(each) for each in passages]
        lengths = np.array([sum(each.values()) for each in counts])
        self._count = len(passages)
        self._popularity = POPULAR * np.log1p([each.uses for each in passages])
        # For each word the passages with it, and its part of their score.
        found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        norms = self.K1 * (1 - self.B + self.B * lengths / (lengths.mean() if len(lengths) else 1))
        for which, weights in enumerate(counts):
            for word, weight in weights.items():
                found[word].append((which, weight * (self.K1 + 1) / (weight + norms[which])))
        self._parts = {word: _columns(pairs) for word, pairs in found.items()}
        named: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for which, passage in enumerate(passages):
            name = set(terms(title_parts(passage.title)[1]))
            for word in name:
                named[word].append((which, 1 / len(name)))
        self._named = {word: _columns(pairs) for word, pairs in named.items()}

    def rarity(self, word: str) -> float:
        """Return the weight of a word: the fewer passages have it, the more it tells."""
        held = len(self._parts[word][0]) if word in self._parts else 0
        return math.log(1 + (self._count - held + 0.5) / (held + 0.5))

    def scores(self, question: str) -> np.ndarray:
        """Return the score of each passage: 0 without a shared word, and mostly below 3."""
        total, named = np.zeros(self._count), np.zeros(self._count)
        asked = set(terms(question))
        for word in asked:
            of_word, in_name = np.zeros(self._count), np.zeros(self._count)
            for each in (word, *SYNONYMS.get(word, ())):
                if each in self._parts:
                    which, parts = self._parts[each]
                    # A synonym does not count more because it is rarer than the word itself.
                    rarity = min(self.rarity(word), self.rarity(each))
                    of_word[which] = np.maximum(of_word[which], rarity * parts)
                if each in self._named:
                    which, parts = self._named[each]
                    in_name[which] = np.maximum(in_name[which], parts)
            total += of_word
            named += in_name
        total /= sum(map(self.rarity, asked)) or 1
        return np.where(total > 0, total + NAMED * np.minimum(named, 1) + self._popularity, 0)

    @staticmethod
    def best(scores: np.ndarray, most: int) -> list[int]:
        """Return the passages with the best scores, best first, without those that share nothing."""
        order = np.argsort(-scores, kind="stable")[:most]
        return [int(which) for which in order if scores[which] > 0]


def title_parts(title: str) -> tuple[str, str]:
    """Split a title such as os.path.join into what is before the name and the name."""
    if title.startswith("reference: "):
        return "", title.removeprefix("reference: ")
    before, _, last = title.rpartition(".")
    return before, last


def _weighted(passage: Passage) -> dict[str, float]:
    before, last = title_parts(passage.title)
    rest = passage.text.partition(passage.summary)[2] if passage.summary in passage.text else passage.text
    weights: defaultdict[str, float] = defaultdict(float)
    for text, weight in ((last, LAST), (before, BEFORE), (passage.summary, SUMMARY), (rest, TEXT)):
        for word in terms(text):
            weights[word] += weight
    return weights


def _columns(pairs: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    which, values = zip(*pairs, strict=True)
    return np.array(which), np.array(values)
