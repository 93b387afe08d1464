"""The parts of the main job that are text and model: what they make, the embedded engine loads and answers with."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import pytest
import torch

from examples.main_job import language_model
from examples.texts import python_documentation as corpus
from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from tests.llm.asking import ask


@pytest.fixture(scope="module")
def documents() -> list[corpus.Document]:
    path = next(each for each in corpus.library_files() if each.endswith("json/decoder.py"))
    return [*islice(corpus.topic_documents(), 5), *corpus.docstring_documents(path)]


def test_documents_are_questions_and_clean_answers(documents: list[corpus.Document]) -> None:
    answers = {each.question: each.answer for each in documents}
    assert "What is json.decoder.JSONDecoder?" in answers
    for answer in answers.values():
        assert answer == answer.strip() and "\n\n\n" not in answer and len(answer) > 20
    assert len(corpus.library_files()) > 300


def test_the_engine_answers_in_the_models_own_format(
    documents: list[corpus.Document], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    texts = [language_model.training_text(each.question, each.answer) for each in documents]
    tokenizer = language_model.train_tokenizer(texts, 600)
    for text in [*texts, "é € 😀 \x00"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert 1_800_000 < sum(each.numel() for each in language_model.new_model().parameters()) < 2_200_000
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    model = language_model.new_model(len(tokenizer), **small)
    pieces = torch.tensor(list(islice(language_model.packed(map(tokenizer.encode, texts), 48), 8)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        loss = model(input_ids=pieces, labels=pieces).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]
    folder = language_model.save(tmp_path / "model", model, tokenizer)

    async def run() -> None:
        engine = EmbeddedEngine(EngineArgs(folder))
        await engine.start()
        prompt = engine.text.chat([{"role": "user", "content": "What is json?"}])
        assert prompt == "<|user|>What is json?\n<|assistant|>"
        answer = await ask(engine, engine.text.encode(prompt, special=False), max_tokens=12)
        assert answer.tokens and "<|" not in answer.text
        await engine.stop()

    asyncio.run(run())
