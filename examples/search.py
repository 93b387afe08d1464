"""Index Python's own documentation in parallel, and search it.

    python examples/search.py

The text is available on every machine: the reference topics of ``pydoc_data`` and each docstring in the sources
of the standard library. Tasks parse the sources and build one inverted index per shard; the indexes stay in
the object store. An actor merges the statistics of all shards for the ranking, and counts the queries. A
search is one task per shard, and the best answers of each are merged here. At the end part of the index is
rebuilt serially in this process and compared.
"""

from __future__ import annotations

import ast
import heapq
import math
import os
import re
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc_data import topics
from typing import NamedTuple

import skate as ray

QUERIES = (
    "sort a list with a key function",
    "temporary directory removed when the block ends",
    "parse command line arguments",
    "wait until a thread terminates",
    "start a thread after a number of seconds",
    "what the for statement does with an iterator",
    "compress bytes with gzip",
)
SHARDS = 24
ANSWERS = 3
PASSAGE_WORDS = 120

# Folders next to the library that do not belong to it.
NOT_LIBRARY = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}
WORD = re.compile(r"[a-z][a-z0-9]+")


class Document(NamedTuple):
    title: str
    text: str


class Entry(NamedTuple):
    """A document in an index, with the data to rank and to show it."""

    title: str
    opening: str
    words: int


class Index(NamedTuple):
    entries: list[Entry]
    postings: dict[str, list[tuple[int, int]]]  # term -> (position in entries, occurrences)


class Summary(NamedTuple):
    """One shard's contribution to the statistics of the whole."""

    documents: int
    words: int
    document_frequency: dict[str, int]
    pid: int


class Answer(NamedTuple):
    score: float
    title: str
    opening: str


def terms(text: str) -> list[str]:
    return WORD.findall(text.lower())


def build_index(documents: list[Document]) -> Index:
    entries: list[Entry] = []
    postings: dict[str, list[tuple[int, int]]] = {}
    for title, text in documents:
        counts = Counter(terms(title) + terms(text))
        opening = next((line.strip() for line in text.splitlines() if line.strip()), "")
        for term, occurrences in counts.items():
            postings.setdefault(term, []).append((len(entries), occurrences))
        entries.append(Entry(title, opening, counts.total()))
    return Index(entries, postings)


def docstrings(path: str, root: str) -> Iterator[Document]:
    """Return the docstrings of a source file and of each public class, function and method in it."""
    module = os.path.relpath(path, root)[: -len(".py")].replace(os.sep, ".").removesuffix(".__init__")

    def walk(
        node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
    ) -> Iterator[Document]:
        if text := ast.get_docstring(node):
            yield Document(name, text)
        for child in node.body:
            named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if named and not child.name.startswith("_"):
                yield from walk(child, f"{name}.{child.name}")

    try:
        yield from walk(ast.parse(Path(path).read_bytes()), module)
    except SyntaxError:  # a few files are templates or samples of broken code
        return


def passages(title: str, text: str) -> Iterator[Document]:
    """Split a long text into documents of whole paragraphs, each of about ``PASSAGE_WORDS`` words."""
    passage: list[str] = []
    for paragraph in text.split("\n\n"):
        passage.append(paragraph)
        if sum(len(part.split()) for part in passage) >= PASSAGE_WORDS:
            yield Document(title, "\n\n".join(passage))
            passage = []
    if passage:
        yield Document(title, "\n\n".join(passage))


class Shard(NamedTuple):
    """A share of the text: topics by name, sources by path."""

    topics: list[str]
    sources: list[str]
    root: str

    def documents(self) -> list[Document]:
        found = [part for name in self.topics for part in passages(f"topic {name}", topics.topics[name])]
        for path in self.sources:
            found += docstrings(path, self.root)
        return found


@ray.remote(num_returns=2)
def index_shard(shard: Shard) -> tuple[Index, Summary]:
    index = build_index(shard.documents())
    frequency = {term: len(places) for term, places in index.postings.items()}
    words = sum(entry.words for entry in index.entries)
    return index, Summary(len(index.entries), words, frequency, os.getpid())


@ray.remote
class Catalogue:
    """The statistics of all indexes together, and of the queries."""

    def __init__(self) -> None:
        self.documents = 0
        self.words = 0
        self.document_frequency: Counter[str] = Counter()
        self.workers: set[int] = set()
        self.asked: Counter[str] = Counter()

    def add(self, summary: Summary) -> int:
        """Add a shard; return the current number of documents."""
        self.documents += summary.documents
        self.words += summary.words
        self.document_frequency.update(summary.document_frequency)
        self.workers.add(summary.pid)
        return self.documents

    def weights(self, query: str) -> tuple[dict[str, float], float]:
        """Return the inverse document frequency of each known term of a query, and the mean length of a document."""
        # A word in every twentieth document says little about a query.
        self.asked.update({t for t in terms(query) if self.document_frequency[t] * 20 < self.documents})
        known = {
            term: self.document_frequency[term] for term in terms(query) if self.document_frequency[term]
        }
        return {t: math.log(self.documents / n) for t, n in known.items()}, self.words / self.documents

    def report(self) -> dict[str, object]:
        return {
            "documents": self.documents,
            "words": self.words,
            "terms": len(self.document_frequency),
            "workers": len(self.workers),
            "asked": self.asked.most_common(3),
        }

    def frequencies(self, of: list[str]) -> list[int]:
        return [self.document_frequency[term] for term in of]


def rank(index: Index, weights: dict[str, float], mean_words: float) -> list[Answer]:
    """Return the best documents of one index by TF-IDF, normalized by length."""
    scores: dict[int, float] = {}
    for term, weight in weights.items():
        for position, occurrences in index.postings.get(term, ()):
            scores[position] = scores.get(position, 0.0) + (1 + math.log(occurrences)) * weight
    answers = (
        Answer(score / (0.75 + 0.25 * entry.words / mean_words), entry.title, entry.opening)
        for score, entry in ((score, index.entries[position]) for position, score in scores.items())
    )
    return heapq.nlargest(ANSWERS, answers)


rank_shard = ray.remote(rank)


def library_sources() -> tuple[list[str], str]:
    """Return every source file of the standard library, and the root folder of module names."""
    root = sysconfig.get_paths()["stdlib"]
    found = []
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if name not in NOT_LIBRARY)
        found += [os.path.join(folder, name) for name in files if name.endswith(".py")]
    return sorted(found), root


def cut_into_shards() -> list[Shard]:
    """Divide files into shares of about equal size: the largest remaining file goes to the smallest share."""
    sources, root = library_sources()
    shards = [Shard([], [], root) for _ in range(SHARDS)]
    filled = [(0, i) for i in range(SHARDS)]
    sizes = {path: os.path.getsize(path) for path in sources}
    for path in sorted(sources, key=sizes.__getitem__, reverse=True):
        size, i = heapq.heappop(filled)
        shards[i].sources.append(path)
        heapq.heappush(filled, (size + sizes[path], i))
    for position, name in enumerate(sorted(topics.topics)):
        shards[position % SHARDS].topics.append(name)
    return shards


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar, or a line at each quarter if the output is not a terminal. Call the value to advance."""
    try:
        # Optional: the demo also runs without rich.
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        Progress = None
    if Progress is None or not sys.stdout.isatty():
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done * 4 // total > (done - 1) * 4 // total:
                print(f"{title}: {done}/{total}", flush=True)

        yield advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def build(shards: list[Shard]) -> tuple[list[ray.ObjectRef], ray.actor.ActorHandle]:
    """Build one index per shard, kept in the object store, and the catalogue of all of them."""
    catalogue = Catalogue.remote()
    pairs = [index_shard.remote(shard) for shard in shards]
    # The summaries go from the workers to the actor; neither they nor the indexes pass through this process.
    counted = [catalogue.add.remote(summary) for _, summary in pairs]
    with progress("indexing shards", len(shards)) as advance:
        waiting = counted
        while waiting:
            ready, waiting = ray.wait(waiting)
            ray.get(ready)
            advance()
    return [index for index, _ in pairs], catalogue


def search(query: str, indexes: list[ray.ObjectRef], catalogue: ray.actor.ActorHandle) -> list[Answer]:
    weights, mean_words = ray.get(catalogue.weights.remote(query))
    per_shard = ray.get([rank_shard.remote(index, weights, mean_words) for index in indexes])
    return heapq.nlargest(ANSWERS, (answer for answers in per_shard for answer in answers))


def check(shards: list[Shard], indexes: list[ray.ObjectRef], catalogue: ray.actor.ActorHandle) -> str:
    """Rebuild three shards serially in this process and compare every count; count one word in all shards."""
    sample = (0, SHARDS // 2, SHARDS - 1)
    compared = 0
    for i in sample:
        serial, parallel = build_index(shards[i].documents()), ray.get(indexes[i])
        if serial != parallel:
            raise SystemExit(f"shard {i}: the index built in a task differs from the one built serially")
        compared += sum(map(len, serial.postings.values()))
    words = ["iterator", "thread", "bytes", "gzip"]
    merged = ray.get(catalogue.frequencies.remote(words))
    summed = [sum(len(index.postings.get(word, ())) for index in ray.get(indexes)) for word in words]
    if merged != summed:
        raise SystemExit(
            f"document frequencies of {words}: the actor says {merged}, the indexes say {summed}"
        )
    return f"{compared:,} postings of {len(sample)} shards equal a serial build; the merged counts agree"


def show(query: str, answers: list[Answer]) -> None:
    print(f"\n  {query}")
    for answer in answers:
        print(f"    {answer.score:5.1f}  {answer.title:<44.44} {answer.opening:.56}")


def main() -> None:
    started = time.perf_counter()
    with ray.init():
        ready = time.perf_counter()
        print(f"ready after {ready - started:.2f} s, {int(ray.cluster_resources()['CPU'])} CPUs", flush=True)
        shards = cut_into_shards()
        indexes, catalogue = build(shards)
        indexed = time.perf_counter()
        about = ray.get(catalogue.report.remote())
        print(
            f"indexed {about['documents']:,} documents, {about['words']:,} words, {about['terms']:,} terms "
            f"in {indexed - ready:.1f} s on {about['workers']} workers"
        )
        for query in QUERIES:
            show(query, search(query, indexes, catalogue))
        asked = ", ".join(f"{word} ({count}x)" for word, count in ray.get(catalogue.report.remote())["asked"])
        took = time.perf_counter() - indexed
        print(f"\nanswered {len(QUERIES)} queries in {took:.2f} s; words asked for most: {asked}")
        print(f"checked: {check(shards, indexes, catalogue)}")
    print(f"done in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
