"""Data: from the sources of Python's library to rows of tokens, as streaming datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import language_model
import numpy as np
from texts import python_documentation as corpus

import skate as ray

#: The tokens per row, which is the context length in training.
ROW_TOKENS = 128


class Prepared(NamedTuple):
    """The prepared text, and its location."""

    documents: int
    characters: int
    tokens: int
    rows: int
    tokens_folder: str
    tokenizer_folder: str


def prepare(folder: Path, most_files: int | None = None) -> Prepared:
    """Read and clean the text, train a tokenizer on it, and write rows of tokens; two streaming datasets."""
    text_folder, tokens_folder = folder / "text", folder / "tokens"
    files = corpus.library_files()[:most_files]
    documents = ray.data.from_items([{"path": path} for path in files]).flat_map(documents_of)
    topics = ray.data.from_items([as_row(document) for document in corpus.topic_documents()])
    documents.union(topics).filter(is_prose).write_parquet(str(text_folder), mode="overwrite")

    text = ray.data.read_parquet(str(text_folder))
    tokenizer = language_model.train_tokenizer(texts_of(text))
    tokenizer_folder = folder / "tokenizer"
    tokenizer.save_pretrained(str(tokenizer_folder))

    rows = text.map_batches(
        Tokenize,
        fn_constructor_args=(str(tokenizer_folder),),
        batch_size=512,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    rows.random_shuffle(seed=0).write_parquet(str(tokens_folder), mode="overwrite")
    written = ray.data.read_parquet(str(tokens_folder))
    count = written.count()
    characters = text.with_column("characters", ray.data.expressions.col("answer").str.len()).sum(
        "characters"
    )
    return Prepared(
        text.count(), int(characters), count * ROW_TOKENS, count, str(tokens_folder), str(tokenizer_folder)
    )


def documents_of(row: dict[str, Any]) -> list[dict[str, str]]:
    """Return the documents of one source file, as rows."""
    return [as_row(document) for document in corpus.docstring_documents(row["path"])]


def as_row(document: corpus.Document) -> dict[str, str]:
    """Convert a document to a row of a dataset."""
    return {"question": document.question, "answer": document.answer}


def is_prose(row: dict[str, Any]) -> bool:
    """True if a text is mostly words: tables and drawings teach a small model nothing."""
    text = row["answer"]
    return sum(each.isalpha() or each.isspace() for each in text) > 0.7 * len(text)


def texts_of(text: ray.data.Dataset) -> Iterator[str]:
    """Iterate over formatted documents, with one batch in memory at a time."""
    for batch in text.iter_batches(batch_size=512, batch_format="numpy"):
        for question, answer in zip(batch["question"], batch["answer"], strict=True):
            yield language_model.training_text(question, answer)


class Tokenize:
    """Converts batches of documents to rows of tokens; the tokenizer is loaded once in each actor."""

    def __init__(self, tokenizer_folder: str) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        pairs: Iterable[tuple[str, str]] = zip(batch["question"], batch["answer"], strict=True)
        texts = [language_model.training_text(question, answer) for question, answer in pairs]
        tokens = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        rows = list(language_model.packed(tokens, ROW_TOKENS))
        return {"input_ids": np.array(rows, dtype=np.int32).reshape(len(rows), ROW_TOKENS)}
