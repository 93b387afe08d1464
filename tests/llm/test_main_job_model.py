"""The parts of the main job that are text and model: what they make, the embedded engine loads and answers with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from examples.main_job import language_model
from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from tests.llm.asking import ask

MAIN_JOB = Path(__file__).parents[2] / "examples" / "main_job"


@pytest.fixture(scope="module")
def job() -> Iterator[dict[str, ModuleType]]:
    """The modules of the text, as the program imports them."""
    before = list(sys.path)
    sys.path.insert(0, str(MAIN_JOB))
    import facts
    import fit
    import questions

    yield {"facts": facts, "fit": fit, "questions": questions}
    sys.path[:] = before


def test_a_fact_is_the_first_sentence_of_a_docstring(job: dict[str, ModuleType]) -> None:
    as_fact = job["facts"].as_fact
    found = as_fact(
        "shutil.remove", "remove(path) -> None\n\nRemoves a `file` (see unlink()).  Raises OSError."
    )
    assert found == ("shutil.remove", "remove", "a file")
    assert as_fact("f.pop", "Pop and return the 'last' item: at the end").rest == "and returns the last item"
    for text in (
        "The answer to all questions.",
        "Return.",
        "Return x[0].",
        "Return " + "very " * 20 + "much.",
    ):
        assert as_fact("f.g", text) is None, text
    assert job["facts"].third("copy") == "copies" and job["facts"].third("push") == "pushes"


def test_facts_are_of_compiled_functions_and_of_source_files(job: dict[str, ModuleType]) -> None:
    sources = job["facts"].sources()
    (file,) = [each for each in sources if each.endswith("/glob.py")]
    found = {fact.name: fact for source in ("builtins", file) for fact in job["facts"].facts_of(source)}
    assert {"str.upper", "list.append", "len", "open", "glob.glob"} <= found.keys()
    assert found["str.upper"].verb == "return" and "uppercase" in found["str.upper"].rest
    assert len(sources) > 40 and not any("._" in name or "bytearray" in name for name in found)


def test_phrasings_for_tests_are_never_trained(job: dict[str, ModuleType]) -> None:
    fact = job["facts"].Fact("str.islower", "return", "True if the string is in lowercase, False otherwise")
    trained = [pair for seed in range(20) for pair in job["questions"].trained(fact, seed)]
    kept = job["questions"].kept(fact)
    assert len({pair.question for pair in trained}) > 100
    assert not {pair.question.lower() for pair in trained} & {pair.question.lower() for pair in kept}
    assert kept[3].question == "How would I check whether the string is in lowercase?"
    answers = {pair.answer for pair in kept}
    assert answers == {pair.answer for pair in trained} - {job["questions"].UNKNOWN}
    assert "Use str.islower. It returns True if the string is in lowercase, False otherwise." in answers


def test_rows_hold_whole_questions_and_learn_answers_only() -> None:
    pairs = [([1, 2], [3, 4]), ([5] * 9, [6]), ([7], [8, 9]), ([10, 11, 12], [13])]
    no = language_model.IGNORED
    assert list(language_model.packed(pairs, 8)) == [
        ([1, 2, 3, 4, 7, 8, 9, 0], [no, no, 3, 4, no, 8, 9, no]),
        ([10, 11, 12, 13, 0, 0, 0, 0], [no, no, no, 13, no, no, no, no]),
    ]
    model = language_model.new_model(32, hidden_size=16, intermediate_size=32, num_hidden_layers=1)
    tokens = torch.tensor([[1, 2, 3, 4, 7, 8, 9, 0]])
    labels = torch.tensor([[no, no, 3, 4, no, 8, 9, no]])
    loss = language_model.AnswerLoss(model)(tokens, labels)
    assert loss.item() == pytest.approx(model(input_ids=tokens, labels=labels).loss.item(), rel=1e-4)


def test_training_ends_with_its_steps_or_with_its_time(
    job: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, now = job["fit"], [100.0]
    monkeypatch.setattr(fit, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    schedule = fit.Schedule(100, seconds=50)
    assert schedule.rate(0) < 0.1 * fit.RATE
    now[0] = 110
    assert not schedule.over(50)
    on_time = schedule.rate(75)
    assert 0.02 * fit.RATE < on_time < fit.RATE and schedule.rate(100) == pytest.approx(0.02 * fit.RATE)
    assert schedule.over(100)
    # On a slow machine 60 steps take 0.8 of the time, so about 75 will be all.
    now[0] = 140
    assert not schedule.over(60)
    assert schedule.rate(75) == pytest.approx(0.02 * fit.RATE) and schedule.rate(60) < on_time
    now[0] = 150
    assert schedule.over(75)


def test_the_engine_answers_with_what_was_learned(job: dict[str, ModuleType], tmp_path: Path) -> None:
    torch.manual_seed(0)
    known = [fact for fact in job["facts"].facts_of("builtins") if fact.name in ("str.upper", "list.append")]
    pairs = [pair for fact in known for pair in job["questions"].trained(fact)]
    texts = [language_model.training_text(*pair) for pair in pairs]
    tokenizer = language_model.train_tokenizer(texts, 600)
    for text in [*texts, "é € 😀 \x00"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert 1_300_000 < sum(each.numel() for each in language_model.new_model().parameters()) < 1_700_000
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    model = language_model.new_model(len(tokenizer), **small)
    encoded = (
        (
            tokenizer.encode(language_model.prompt_text(question)),
            tokenizer.encode(answer + language_model.END),
        )
        for question, answer in pairs
    )
    rows = list(language_model.packed(encoded, 128))
    tokens, labels = (torch.tensor([row[at] for row in rows]) for at in (0, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(90):
        loss = language_model.AnswerLoss(model)(tokens, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = language_model.save(tmp_path / "model", model, tokenizer)

    async def run() -> None:
        engine = EmbeddedEngine(EngineArgs(folder))
        await engine.start()
        for question, answer in pairs[:2] + pairs[-4:-3]:
            prompt = engine.text.chat([{"role": "user", "content": question}])
            assert prompt == language_model.prompt_text(question)
            given = await ask(engine, engine.text.encode(prompt, special=False), max_tokens=40, temperature=0)
            assert given.text == answer
        await engine.stop()

    asyncio.run(run())
