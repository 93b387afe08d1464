"""Stands in for the package of this name: the same call, a model that is a hash, and a record of each use."""

from __future__ import annotations

import json
import os
import zlib

import numpy as np

DIMENSIONS = 384


class SentenceTransformer:
    """Maps each text to a unit vector that depends on its words alone."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name

    def encode(self, texts: list[str], show_progress_bar: bool = True) -> np.ndarray:
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.split():
                row[zlib.crc32(word.encode()) % DIMENSIONS] += 1
        self._record(len(texts))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _record(self, texts: int) -> None:
        line = {
            "pid": os.getpid(),
            "model": self.model_name,
            "texts": texts,
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        }
        # One short write in append mode: lines of several workers do not mix.
        with open(os.environ["STAND_IN_RECORD"], "a") as file:
            file.write(json.dumps(line) + "\n")
