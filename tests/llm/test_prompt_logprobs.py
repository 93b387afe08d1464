"""Log probabilities of prompts on the embedded engine, beside those of transformers, and prompts that are only scored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM

from skate.llm import SamplingParams, TokenLogprob
from skate.llm.embedded.engine import EmbeddedEngine
from tests.llm.asking import ask, until

# All tests of the run share this server, so it begins before any of the file.
pytestmark = pytest.mark.usefixtures("url")
#: Longer than one step computes, and than the shortest prefix that is reused.
LONG = "The same long beginning of a prompt, which is more than one part of it, and then some words. "


@pytest.fixture(scope="module")
def likely(model_folder: Path) -> Any:
    """A function that returns the log probabilities of transformers before each token of a text but the first."""
    model = AutoModelForCausalLM.from_pretrained(model_folder).eval()

    def of(tokens: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            rows: torch.Tensor = model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        return rows

    return of


async def scored(
    engine: EmbeddedEngine, prompt: list[int], client: str = "", **params: Any
) -> list[list[TokenLogprob | None] | None]:
    """The log probabilities of a prompt, as each of the answers has them."""
    given = SamplingParams(**{"temperature": 0.0, "max_tokens": 3, **params})
    found: list[list[TokenLogprob | None] | None] = [None] * given.n
    async for new in engine.generate(prompt, given, "r", client=client):
        if new.prompt_logprobs is not None:
            assert found[new.index] is None
            found[new.index] = new.prompt_logprobs
    return found


def same(found: list[TokenLogprob | None] | None, tokens: list[int], rows: torch.Tensor, count: int) -> None:
    """Compare log probabilities with rows over the vocabulary."""
    assert found is not None and found[0] is None and len(found) == len(tokens)
    for token, row, each in zip(tokens[1:], rows, found[1:], strict=True):
        assert each is not None and each.token == token
        assert each.logprob == pytest.approx(float(row[token]), abs=1e-4)
        wanted = row.topk(count).indices.tolist()
        assert [other for other, _ in each.top] == wanted + [token] * (token not in wanted)
        ranked = row.sort(descending=True).values
        for (other, value), rank in zip(each.top, each.ranks, strict=True):
            assert value == pytest.approx(float(row[other]), abs=1e-4)
            assert value == pytest.approx(float(ranked[rank - 1]), abs=1e-4)


def test_they_are_those_of_transformers(engine: EmbeddedEngine, likely: Any) -> None:
    async def run() -> None:
        tokens = engine.text.encode(LONG)
        rows = likely(tokens)
        plain = await ask(engine, tokens, max_tokens=3)
        for count in (0, 2):  # the second time, the keys of the prompt are in the cache
            (found,) = await scored(engine, tokens, extra={"prompt_logprobs": count})
            same(found, tokens, rows, count)
        short = [tokens[:size] for size in (1, 2, 30)]
        mixed = [scored(engine, each, extra={"prompt_logprobs": 1}, n=2) for each in short]
        *together, other = await asyncio.gather(*mixed, ask(engine, tokens, max_tokens=3))
        for each, answers in zip(short, together, strict=True):
            for found in answers:
                same(found, each, likely(each) if len(each) > 1 else torch.empty(0), 1)
        assert other.tokens == plain.tokens
        assert await scored(engine, tokens) == [None]

    asyncio.run(run())


def test_a_prompt_that_loses_its_slot_is_scored_again_from_the_start(
    engine: EmbeddedEngine, likely: Any
) -> None:
    async def run() -> None:
        tokens = engine.text.encode(LONG + LONG)
        params = {"extra": {"prompt_logprobs": 1}, "n": 4}
        busy = asyncio.create_task(scored(engine, tokens, "busy", **params))
        await until(lambda: engine.load()[0] == 4, "four prompts in all slots")
        other = await scored(engine, tokens[:9], "other", extra={"prompt_logprobs": 0})
        same(other[0], tokens[:9], likely(tokens[:9]), 0)
        for found in await busy:
            same(found, tokens, likely(tokens), 1)

    asyncio.run(run())


def test_a_prompt_is_scored_without_a_new_token(url: str, engine: EmbeddedEngine, likely: Any) -> None:
    given: dict[str, Any] = {"model": "tiny", "max_tokens": 0, "echo": True, "logprobs": 1}
    tokens = engine.text.encode("abcd")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        found = client.completions.create(prompt=["abcd", "xy"], **given)
        first, second = found.choices
        assert (first.text, second.text, first.finish_reason) == ("abcd", "xy", "length")
        assert found.usage is not None
        assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (6, 0)
        logprobs: Any = first.logprobs
        assert logprobs.tokens == list("abcd") and logprobs.text_offset == [0, 1, 2, 3]
        wanted = [float(row[token]) for token, row in zip(tokens[1:], likely(tokens), strict=True)]
        assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
        assert logprobs.token_logprobs[1:] == pytest.approx(wanted, abs=1e-4)
        *_, end = chunks = list(client.completions.create(prompt="abcd", stream=True, **given))
        assert "".join(each.choices[0].text for each in chunks) == "abcd"
        assert end.choices[0].finish_reason == "length"
        echoed: Any = chunks[0].choices[0].logprobs
        assert echoed.token_logprobs == logprobs.token_logprobs
        bare = client.completions.create(model="tiny", prompt="abcd", max_tokens=0, echo=True)
        assert bare.choices[0].text == "abcd" and bare.choices[0].logprobs is None
        more = {"prompt_logprobs": 2}
        several = client.completions.create(model="tiny", prompt="abcd", n=2, max_tokens=1, extra_body=more)
        assert [len(each.prompt_logprobs) for each in several.choices] == [4, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"max_tokens": 0}, "requires echo=true"),
        ({"max_tokens": 0, "echo": True, "extra_body": {"min_tokens": 1}}, "min_tokens does not work"),
        (
            {"max_tokens": 0, "echo": True, "extra_body": {"use_beam_search": True}},
            "use_beam_search does not",
        ),
        ({"extra_body": {"prompt_logprobs": -1}}, "from 0 to 20"),
        ({"extra_body": {"prompt_logprobs": 21}}, "from 0 to 20"),
    ],
)
def test_what_does_not_go_is_refused(url: str, params: dict[str, Any], match: str) -> None:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match=match),
    ):
        client.completions.create(model="tiny", prompt="ab", **params)
