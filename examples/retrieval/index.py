"""The index: passages, and vectors of the best-known ones, created by a dataset whose actors hold the embedding model,
and stored in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from embedding import Encoder
from passages import Passage

import skate as ray

BATCH = 64  # passages per batch
USES = 2  # files that use a name, for it to be well known
MOST_CHARACTERS = 150  # of a summary


class Index(NamedTuple):
    """Passages, the numbers of those that have a vector, and these vectors, of length 1, in the same order."""

    passages: list[Passage]
    embedded: np.ndarray
    vectors: np.ndarray


def well_known(passages: Sequence[Passage]) -> list[int]:
    """Return the numbers of the passages that get a vector: names that the library itself uses, and the first passage of
    each topic. They are found by meaning, too, and all others by words only: a vector takes milliseconds."""
    seen: set[str] = set()
    found = []
    for which, passage in enumerate(passages):
        if passage.uses >= USES and passage.title not in seen:
            found.append(which)
        seen.add(passage.title)
    return found


def embedded_text(title: str, summary: str) -> str:
    """Return the text that stands for a passage: short, because the time for a vector grows with it."""
    return f"{title}: {summary[:MOST_CHARACTERS]}"


class Embed:
    """Adds vectors to batches of passages; the model is loaded once in each actor."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        texts = [embedded_text(*each) for each in zip(batch["title"], batch["summary"], strict=True)]
        return {"place": batch["place"], "vector": self.encoder.vectors(texts)}


def build(
    passages: Sequence[Passage],
    folder: Path,
    workers: int = 2,
    told: Callable[[int], None] = lambda done: None,
) -> None:
    """Embed the best-known passages with a number of actors and write the index; `told` is called with the number
    of vectors. An incomplete folder is not an index, so the next run recreates it."""
    chosen = well_known(passages)
    vectors = np.zeros((len(chosen), Encoder.DIMENSIONS), np.float32)
    rows = [
        {"place": place, "title": passages[which].title, "summary": passages[which].summary}
        for place, which in enumerate(chosen)
    ]
    # Long ones first, so that the last batch of an actor is short.
    rows.sort(key=lambda row: -len(str(row["summary"])))
    embedded = ray.data.from_items(rows).map_batches(
        Embed, batch_size=BATCH, compute=ray.data.ActorPoolStrategy(size=workers)
    )
    done = 0
    for batch in embedded.iter_batches(batch_size=None, batch_format="numpy"):
        vectors[batch["place"]] = batch["vector"]
        done += len(batch["place"])
        told(done)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "embedded.npy", np.array(chosen, dtype=int))
    # Written last and atomically: a folder with this file is an index.
    unfinished = folder / f"passages.{os.getpid()}"
    unfinished.write_text(json.dumps([*map(list, passages)]), encoding="utf-8")
    unfinished.rename(folder / "passages.json")


def is_there(folder: Path) -> bool:
    """True if a folder has an index."""
    return (folder / "passages.json").exists()


def load(folder: str | Path) -> Index:
    """Load the index of a folder; its vectors are memory-mapped, so replicas on one machine share them."""
    folder = Path(folder)
    passages = [Passage(*each) for each in json.loads((folder / "passages.json").read_text(encoding="utf-8"))]
    return Index(passages, np.load(folder / "embedded.npy"), np.load(folder / "vectors.npy", mmap_mode="r"))
