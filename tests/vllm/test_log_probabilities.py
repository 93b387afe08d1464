"""Log probabilities of prompts, and the search for the likeliest answers, beside those of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from skate.serve.llm import build_openai_app
from tests.llm import tiny
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.serving import GREEDY, HELLO, PROMPT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.text_model(tmp_path_factory.mktemp("model") / "text")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Any]:
    with (
        serving.served(build_openai_app({"llm_configs": [serving.config(folder)]})) as url,
        serving.client(url) as made,
    ):
        yield made


def test_echo_with_log_probabilities_has_those_of_the_prompt(client: Any) -> None:
    given = {"prompt": "abc", "max_tokens": 2, "echo": True, "logprobs": 1}
    found = client.completions.create(**given, **GREEDY).choices[0].logprobs
    assert found.tokens[:3] == ["a", "b", "c"] and len(found.tokens) == 5
    assert found.token_logprobs[0] is None and all(each <= 0 for each in found.token_logprobs[1:])
    assert found.text_offset[:3] == [0, 1, 2]


def test_a_prompt_is_scored_without_a_new_token(client: Any, folder: Path) -> None:
    tokens = tiny.tokenizer().encode("abcd")
    rows = models.logprobs(folder, tokens)
    wanted = [row[token] for token, row in zip(tokens[1:], rows, strict=True)]
    given = {"prompt": "abcd", "max_tokens": 0, "echo": True, "logprobs": 1, **GREEDY}
    found = client.completions.create(**given)
    (choice,) = found.choices
    assert (choice.text, choice.finish_reason, found.usage.completion_tokens) == ("abcd", "length", 0)
    assert choice.logprobs.tokens == list("abcd") and choice.logprobs.token_logprobs[0] is None
    assert choice.logprobs.token_logprobs[1:] == pytest.approx(wanted, abs=1e-3)
    chunks = list(client.completions.create(stream=True, **given))
    assert "".join(each.choices[0].text for each in chunks) == "abcd"
    assert chunks[0].choices[0].logprobs.token_logprobs == choice.logprobs.token_logprobs


def test_log_probabilities_of_the_prompt_are_those_of_transformers(client: Any, folder: Path) -> None:
    tokens = tiny.tokenizer().encode(PROMPT)
    wanted = models.logprobs(folder, tokens)
    given = {"max_tokens": 2, "extra_body": {"prompt_logprobs": 2}, **GREEDY}
    plain = client.completions.create(prompt=PROMPT, **given).choices[0]
    chat = client.chat.completions.create(messages=HELLO, **given)
    for found in (plain.prompt_logprobs, chat.prompt_logprobs):
        assert found[0] is None and len(found) == len(tokens)
        for token, row, likely in zip(tokens[1:], wanted, found[1:], strict=True):
            assert next(iter(likely)) == str(token)
            ranked = sorted(row, reverse=True)
            for other, each in likely.items():
                assert each["logprob"] == pytest.approx(row[int(other)], abs=1e-3)
                assert each["logprob"] == pytest.approx(ranked[each["rank"] - 1], abs=1e-3)
                assert each["decoded_token"] == text_of([int(other)])
            assert {1, 2} <= {each["rank"] for each in likely.values()}
    several = client.completions.create(
        prompt=PROMPT, n=2, max_tokens=2, model="m", extra_body={"prompt_logprobs": 0}
    )
    assert [len(each.prompt_logprobs) for each in several.choices] == [len(tokens)] * 2
    assert client.completions.create(prompt=PROMPT, max_tokens=1, **GREEDY).choices[0].prompt_logprobs is None
    with pytest.raises(openai.BadRequestError, match="greater than max allowed"):
        client.completions.create(prompt="ab", extra_body={"prompt_logprobs": 400}, **GREEDY)


def test_echoes_of_several_streamed_answers_have_log_probabilities(client: Any) -> None:
    given = {"prompt": "abc", "max_tokens": 2, "echo": True, "logprobs": 1, "n": 2, "model": "m", "seed": 1}
    heads = [
        choice.logprobs
        for chunk in client.completions.create(stream=True, **given)
        for choice in chunk.choices
        if choice.text == "abc"
    ]
    assert [each.tokens for each in heads] == [["a", "b", "c"]] * 2


def test_a_beam_search_finds_what_transformers_scores_best(client: Any, folder: Path) -> None:
    wanted = models.beams(folder, tiny.tokenizer().encode(PROMPT), width=3, length=5)
    search = {"use_beam_search": True, "ignore_eos": True}
    given = {"n": 3, "max_tokens": 5, "model": "m", "logprobs": 2}
    found = client.completions.create(prompt=PROMPT, extra_body=search, **given)
    assert [each.text for each in found.choices] == [text_of(tokens) for tokens, _ in wanted]
    for choice, (_, total) in zip(found.choices, wanted, strict=True):
        assert sum(choice.logprobs.token_logprobs) == pytest.approx(total, abs=1e-3)
        assert choice.finish_reason == "length"
    chat = client.chat.completions.create(messages=HELLO, n=3, max_tokens=5, model="m", extra_body=search)
    assert [each.message.content for each in chat.choices] == [each.text for each in found.choices]
    with pytest.raises(openai.BadRequestError, match="stream"):
        client.completions.create(prompt="ab", stream=True, extra_body=search, **GREEDY)
