"""Data: from the docstrings of Python's library to rows of tokens, as streaming datasets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import facts
import language_model
import numpy as np
import questions

import skate as ray

if TYPE_CHECKING:
    from pandas import DataFrame

#: The tokens per row, which is the context length in training; a row has about four questions.
ROW_TOKENS = 128
#: How often each phrasing of a question is asked, each time with other words replaced.
PASSES = 2


class Prepared(NamedTuple):
    """The prepared text, and its location."""

    facts: int
    questions: int
    tokens: int
    rows: int
    facts_folder: str
    tokens_folder: str
    tokenizer_folder: str


def prepare(folder: Path, most_sources: int | None = None) -> Prepared:
    """Read docstrings, make questions of them, train a tokenizer, and write rows of tokens; three streaming datasets."""
    facts_folder, text_folder, tokens_folder = (str(folder / name) for name in ("facts", "text", "tokens"))
    sources = ray.data.from_items([{"source": each} for each in facts.sources()[:most_sources]])
    found = sources.flat_map(lambda row: [fact._asdict() for fact in facts.facts_of(row["source"])])
    # One sentence is the answer to one question, so of functions that do the same, one is kept.
    one_each = found.repartition(1).map_batches(without_doubles, batch_size=None, batch_format="pandas")
    one_each.write_parquet(facts_folder, mode="overwrite")

    known = ray.data.read_parquet(facts_folder)
    known.flat_map(asked).random_shuffle(seed=0).write_parquet(text_folder, mode="overwrite")
    text = ray.data.read_parquet(text_folder)
    tokenizer = language_model.train_tokenizer(texts_of(text))
    tokenizer_folder = str(folder / "tokenizer")
    tokenizer.save_pretrained(tokenizer_folder)

    rows = text.map_batches(
        Tokenize,
        fn_constructor_args=(tokenizer_folder,),
        batch_size=1024,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    rows.write_parquet(tokens_folder, mode="overwrite")
    count = ray.data.read_parquet(tokens_folder).count()
    return Prepared(
        known.count(), text.count(), count * ROW_TOKENS, count, facts_folder, tokens_folder, tokenizer_folder
    )


def without_doubles(rows: DataFrame) -> DataFrame:
    """Keep one row of each name and of each sentence, with the shortest name."""
    order = rows["name"].map(lambda name: (len(name), name))
    return rows.loc[order.sort_values().index].drop_duplicates("name").drop_duplicates(["verb", "rest"])


def asked(row: dict[str, str]) -> list[dict[str, str]]:
    """Return the questions and answers about a fact, as rows."""
    pairs = (pair for seed in range(PASSES) for pair in questions.trained(facts.Fact(**row), seed))
    return [pair._asdict() for pair in pairs]


def known_facts(facts_folder: str) -> list[facts.Fact]:
    """Return the facts that the model learned."""
    return [facts.Fact(**row) for row in ray.data.read_parquet(facts_folder).sort("name").take_all()]


def texts_of(text: ray.data.Dataset) -> Iterator[str]:
    """Iterate over formatted questions and answers, with one batch in memory at a time."""
    for batch in text.iter_batches(batch_size=1024, batch_format="numpy"):
        for question, answer in zip(batch["question"], batch["answer"], strict=True):
            yield language_model.training_text(question, answer)


class Tokenize:
    """Converts batches of questions and answers to rows of tokens; the tokenizer is loaded once in each actor."""

    def __init__(self, tokenizer_folder: str) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)

    def __call__(self, batch: dict[str, Any]) -> dict[str, np.ndarray]:
        prompts = [language_model.prompt_text(each) for each in batch["question"]]
        answers = [f"{each}{language_model.END}" for each in batch["answer"]]
        encoded = [
            self.tokenizer(texts, add_special_tokens=False)["input_ids"] for texts in (prompts, answers)
        ]
        rows = list(language_model.packed(zip(*encoded, strict=True), ROW_TOKENS))
        shape = (len(rows), ROW_TOKENS)
        return {
            "input_ids": np.array([tokens for tokens, _ in rows], dtype=np.int32).reshape(shape),
            "labels": np.array([labels for _, labels in rows], dtype=np.int32).reshape(shape),
        }
