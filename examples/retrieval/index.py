"""The index: passages and their vectors, created by a dataset whose actors hold the embedding model, and
stored in a folder."""

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


class Index(NamedTuple):
    """Passages, and a vector of length 1 for each in the same order."""

    passages: list[Passage]
    vectors: np.ndarray


class Embed:
    """Adds vectors to batches of passages; the model is loaded once in each actor."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        texts = [f"{title}: {text}" for title, text in zip(batch["title"], batch["text"], strict=True)]
        return {"number": batch["number"], "vector": self.encoder.vectors(texts)}


def build(
    passages: Sequence[Passage],
    folder: Path,
    workers: int = 2,
    told: Callable[[int], None] = lambda done: None,
) -> None:
    """Embed the passages with a number of actors and write the index; `told` is called with the progress. An
    incomplete folder is not an index, so the next run recreates it."""
    vectors = np.zeros((len(passages), Encoder.DIMENSIONS), np.float32)
    # Long ones first, so that the last batch of an actor is short.
    order = sorted(range(len(passages)), key=lambda which: -len(passages[which].text))
    rows = [{"number": which, **passages[which]._asdict()} for which in order]
    embedded = ray.data.from_items(rows).map_batches(
        Embed, batch_size=BATCH, compute=ray.data.ActorPoolStrategy(size=workers)
    )
    done = 0
    for batch in embedded.iter_batches(batch_size=None, batch_format="numpy"):
        vectors[batch["number"]] = batch["vector"]
        done += len(batch["number"])
        told(done)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", vectors)
    # Written last and atomically: a folder with this file is an index.
    unfinished = folder / f"passages.{os.getpid()}"
    unfinished.write_text(json.dumps([*map(list, passages)]), encoding="utf-8")
    unfinished.rename(folder / "passages.json")


def is_there(folder: Path) -> bool:
    """True if a folder has an index."""
    return (folder / "passages.json").exists()


def load(folder: str | Path) -> Index:
    """Load the index of a folder; its vectors are memory-mapped, so replicas on one machine share them."""
    passages = json.loads((Path(folder) / "passages.json").read_text(encoding="utf-8"))
    return Index([Passage(*each) for each in passages], np.load(Path(folder) / "vectors.npy", mmap_mode="r"))
