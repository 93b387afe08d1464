"""Beam search over a language of a few tokens beside all of its answers."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from skate.llm import Increment, SamplingParams, TokenLogprob
from skate.llm.errors import BadRequest
from skate.llm.openai.beam_search import BeamSearch

END, LETTERS = 0, (1, 2, 3)
PROMPT = [7, 7]


class Language:
    """Random probabilities of the next token after every text."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.steps = 0

    def row(self, text: Sequence[int]) -> list[float]:
        chance = random.Random(f"{self.seed}{list(text)}")
        weights = [chance.random() ** 3 + 1e-3 for _ in (END, *LETTERS)]
        return [math.log(each / sum(weights)) for each in weights]

    async def generate(
        self, prompt: list[int], params: SamplingParams, number: int
    ) -> AsyncGenerator[Increment, None]:
        self.steps += 1
        row = self.row(prompt)
        assert params.logprobs is not None and params.max_tokens == 1
        ranked = sorted(enumerate(row), key=lambda each: -each[1])[: params.logprobs]
        first, value = ranked[0]
        yield Increment(0, "", [first], [TokenLogprob(first, value, tuple(ranked))], "length")

    def all_answers(self, most: int) -> dict[tuple[int, ...], float]:
        """The log probability of every answer; those that end have the end token."""
        found = {}
        for length in range(most + 1):
            for letters in itertools.product(LETTERS, repeat=length):
                text = letters if length == most else (*letters, END)
                rows = [self.row([*PROMPT, *text[:at]])[token] for at, token in enumerate(text)]
                found[text] = sum(rows)
        return found


def search(language: Language, most: int = 3, penalty: float = 1.0, **params: Any) -> list[Increment]:
    async def run() -> list[Increment]:
        made = BeamSearch(
            language.generate,
            PROMPT,
            SamplingParams(**params),
            length_penalty=penalty,
            ends={END},
            most=most,
            decode=lambda tokens, skip: "".join(map(str, tokens)),
        )
        return [each async for each in made.answers()]

    return asyncio.run(run())


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0, -1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_search_finds_the_best_of_all_answers(seed: int, penalty: float) -> None:
    language = Language(seed)

    def score(text: tuple[int, ...]) -> float:
        return float(every[text] / (len(PROMPT) + len([each for each in text if each != END])) ** penalty)

    every = language.all_answers(3)
    wanted = sorted(every, key=score, reverse=True)[:9]
    found = search(language, penalty=penalty, n=9, logprobs=1, include_stop_str_in_output=True)
    assert [tuple(each.token_ids) for each in found] == wanted
    for each, text in zip(found, wanted, strict=True):
        assert sum(one.logprob for one in each.logprobs or ()) == pytest.approx(every[text])
        assert each.text == "".join(str(token) for token in text if token != END)
        assert each.finish_reason == ("stop" if text[-1] == END else "length")
        assert each.stop_reason == (END if text[-1] == END else None)


def test_an_end_token_is_left_out_or_is_one_like_any_other() -> None:
    language = Language(1)
    ended = [each for each in search(language, n=9, logprobs=1) if each.finish_reason == "stop"]
    assert ended and all(END not in each.token_ids for each in ended)
    assert all(len(each.logprobs or ()) == len(each.token_ids) for each in ended)
    assert {each.finish_reason for each in search(language, n=9, ignore_eos=True)} == {"length"}


def test_a_search_stops_when_no_beam_can_win() -> None:
    class Ending(Language):
        def row(self, text: Sequence[int]) -> list[float]:
            return [math.log(each) for each in (0.9, 0.05, 0.03, 0.02)]

    language = Ending(1)
    assert search(language, most=100, penalty=0.0, n=1)[0].token_ids == []
    assert language.steps == 1


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"n": 11}, "n"),
        ({"stop": "x"}, "stop"),
        ({"logit_bias": {1: 1}}, "logit_bias"),
        ({"min_tokens": 2}, "min_tokens"),
        ({"extra": {"structured_outputs": {"json": {}}}}, "structured_outputs"),
    ],
)
def test_params_without_an_effect_are_refused(params: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=name) as found:
        search(Language(1), **params)
    assert found.value.param == name
