"""Beam search over any engine: each step asks for one more token of every beam, with the likeliest alternatives."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from skate.llm.errors import BadRequest
from skate.llm.openai.answers import collected, merged
from skate.llm.output import Increment, TokenLogprob
from skate.llm.sampling import TOP_LOGPROBS_MAX, SamplingParams

#: Returns the increments of one answer, given a prompt, params and a number that is unique in the search.
Generate = Callable[[list[int], SamplingParams, int], AsyncGenerator[Increment, None]]
#: A step needs two alternatives for each beam, because half of them may end a beam.
WIDTH_MAX = TOP_LOGPROBS_MAX // 2
_WITHOUT_EFFECT = (
    "stop", "stop_token_ids", "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class _Beam:
    """A possible answer, with the sum of its tokens' log probabilities; `end` is the token that ended it."""

    tokens: tuple[int, ...] = ()
    found: tuple[TokenLogprob, ...] = ()
    total: float = 0.0
    end: int | None = None


class BeamSearch:
    """The search for the likeliest `params.n` answers to one prompt, by the algorithm and the scores of vLLM's server.

    Args:
        generate: the engine's function.
        prompt: the tokens of the prompt.
        params: the params of the request; `n` is the number of beams. Raises BadRequest for those without an effect.
        length_penalty: the power of the length, prompt included, by which the sum of a beam is divided.
        ends: the tokens that end an answer.
        most: the most tokens of an answer.
        decode: returns the text of tokens, without special tokens if its second argument is true.
    """

    def __init__(
        self,
        generate: Generate,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        length_penalty: float,
        ends: Collection[int],
        most: int,
        decode: Callable[[Sequence[int], bool], str],
    ) -> None:
        _check(params)
        self._generate = generate
        self._prompt = list(prompt)
        self._params = params
        self._penalty = length_penalty
        self._ends = frozenset() if params.ignore_eos else frozenset(ends)
        self._most = most
        self._decode = decode
        self._step = SamplingParams(
            max_tokens=1, temperature=0, logprobs=2 * params.n, ignore_eos=True, skip_special_tokens=False
        )
        self._asked = 0

    async def answers(self) -> AsyncGenerator[Increment, None]:
        """Yield each answer as one increment, the best first."""
        width = self._params.n
        beams, ended = [_Beam()], list[_Beam]()
        for _ in range(self._most):
            extended = await self._extended(beams)
            ended = heapq.nlargest(
                width, [*ended, *(each for each in extended if each.end is not None)], self._score
            )
            running = (each for each in extended if each.end is None)
            beams = heapq.nlargest(width, running, key=lambda each: each.total)
            if not beams or (len(ended) == width and self._score(ended[-1]) >= self._bound(beams[0])):
                break
        best = heapq.nlargest(width, [*ended, *beams], self._score)
        for index, beam in enumerate(best):
            yield self._increment(index, beam)

    async def _extended(self, beams: Sequence[_Beam]) -> list[_Beam]:
        """Return all beams with each of their likeliest next tokens."""
        streams = []
        for beam in beams:
            self._asked += 1
            streams.append(self._generate([*self._prompt, *beam.tokens], self._step, self._asked))
        found = await collected(merged(streams), len(streams))
        extended = []
        for beam, logprobs in zip(beams, found.logprobs, strict=True):
            for each in logprobs:
                extended += [self._with(beam, token, value, each) for token, value in each.top]
        return extended

    def _with(self, beam: _Beam, token: int, value: float, step: TokenLogprob) -> _Beam:
        total = beam.total + value
        found = (*beam.found, TokenLogprob(token, value, step.top))
        if token not in self._ends:
            return _Beam((*beam.tokens, token), found, total)
        if self._params.include_stop_str_in_output:
            return _Beam((*beam.tokens, token), found, total, token)
        return _Beam(beam.tokens, found[:-1], total, token)

    def _score(self, beam: _Beam) -> float:
        ends = self._params.include_stop_str_in_output and beam.end is not None
        return self._scored(beam.total, len(beam.tokens) - ends)

    def _scored(self, total: float, length: int) -> float:
        return float(total / max(len(self._prompt) + length, 1) ** self._penalty)

    def _bound(self, beam: _Beam) -> float:
        """Return the best score that a beam or its successors can reach; no token raises the sum."""
        return max(self._scored(beam.total, len(beam.tokens)), self._scored(beam.total, self._most))

    def _increment(self, index: int, beam: _Beam) -> Increment:
        kept = beam.tokens
        if beam.end is not None and self._params.include_stop_str_in_output:
            kept = kept[:-1]
        most = self._params.logprobs
        return Increment(
            index,
            self._decode(kept, self._params.skip_special_tokens),
            list(beam.tokens),
            None
            if most is None
            else [TokenLogprob(each.token, each.logprob, each.top[:most]) for each in beam.found],
            "length" if beam.end is None else "stop",
            beam.end,
            len(self._prompt),
            len(beam.tokens),
        )


def _check(params: SamplingParams) -> None:
    if params.n > WIDTH_MAX:
        raise BadRequest(
            f"use_beam_search allows n of at most {WIDTH_MAX}, the number of beams, got {params.n}", "n"
        )
    default = SamplingParams(max_tokens=None)
    names = [
        name
        for name in _WITHOUT_EFFECT
        if (getattr(params, name) or None) != (getattr(default, name) or None)
    ]
    names += params.extra
    if names:
        raise BadRequest(
            f"use_beam_search does not work together with {', '.join(names)}; leave out one or the other",
            names[0],
        )


def ends_of(engine: Any) -> set[int]:
    """Return the tokens that end an answer of an engine's model."""
    token = getattr(getattr(engine.text, "tokenizer", None), "eos_token_id", None)
    return {*engine.info().end_tokens, *(() if token is None else (token,))}
