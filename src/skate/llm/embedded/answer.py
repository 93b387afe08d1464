"""The state of one answer during generation: its prompt, tokens and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skate.llm.detokenizer import Detokenizer, StopTexts
from skate.llm.embedded.sampler import Choice, prompt_logprobs
from skate.llm.output import Increment, TokenLogprob

if TYPE_CHECKING:
    import torch

    from skate.llm.embedded.stream import Stream


@dataclass(eq=False)
class Answer:
    """One of a request's answers.

    Args:
        request_id, index: the request, and the number of the answer in it.
        prompt: the tokens of the prompt.
        choice: selects tokens.
        limit: the most tokens to generate.
        ends: the model's end tokens, which end the answer without a stop reason.
        stop_tokens: tokens that end the answer and become its stop reason.
        text, stops: decode tokens, and find stop texts.
        stream: receives increments.
        adapter: the name of a LoRA adapter, or None.
        client: the client that shares the engine with others; "" for callers in the same process.
        prompt_logprobs: the number of alternatives for each token of the prompt; None for no log probabilities of it.
        arrived: the time of arrival by the engine's clock, in seconds.
    """

    request_id: str
    index: int
    prompt: list[int]
    choice: Choice
    limit: int
    ends: frozenset[int]
    stop_tokens: frozenset[int]
    text: Detokenizer
    stops: StopTexts
    stream: Stream
    adapter: str | None = None
    client: str = ""
    prompt_logprobs: int | None = None
    arrived: float = 0.0
    slot: int = -1
    #: The number of its admission; later admissions are preempted first.
    admitted: int = 0
    #: True if the answer has lost its slot to another client and will resume.
    preempted: bool = False
    #: The number of its tokens, counted from the start of the prompt, that have keys in the cache.
    cached: int = 0
    #: The number of prompt tokens whose keys were copied from the cache.
    reused: int = 0
    tokens: list[int] = field(default_factory=list)
    finished: bool = False
    _resumed: list[int] | None = None
    #: The log probabilities of the prompt's tokens so far.
    _scores: list[TokenLogprob | None] = field(default_factory=lambda: [None])

    @property
    def request(self) -> str:
        """The client's request. The ids of its prompts differ only after the last dash."""
        return self.request_id.rpartition("-")[0]

    @property
    def start(self) -> Sequence[int]:
        """The tokens to compute before the next choice: the prompt and, after a preemption, the answer so far."""
        return self._resumed or self.prompt

    @property
    def prefilling(self) -> bool:
        """True if tokens of `start` are still to be computed."""
        return self.cached < len(self.start)

    @property
    def scores_prompt(self) -> bool:
        """True if log probabilities of the prompt's tokens are still to be computed."""
        return self.prompt_logprobs is not None and len(self._scores) < len(self.prompt)

    def score(self, logits: torch.Tensor) -> None:
        """Record the log probabilities of prompt tokens, from the logits after each token before them."""
        begin = len(self._scores)
        wanted = self.prompt[begin : begin + len(logits)]
        self._scores += prompt_logprobs(logits[: len(wanted)], wanted, self.prompt_logprobs or 0)

    def preempt(self) -> None:
        """Release the slot. At resumption, all tokens but the last, which has no keys yet, are copied or recomputed."""
        self._resumed = [*self.prompt, *self.tokens[:-1]] if self.tokens else None
        self.preempted = True
        self.cached = 0
        if self.scores_prompt:
            self._scores = [None]
        self.slot = -1

    def barred(self) -> frozenset[int]:
        """Return the tokens that are not allowed because they would end the answer before `min_tokens`."""
        if len(self.tokens) < self.choice.params.min_tokens:
            return self.ends | self.stop_tokens
        return frozenset()

    def take(self, token: int, logprob: TokenLogprob | None, now: float) -> Increment:
        """Add a token and return the increment."""
        self.tokens.append(token)
        count = len(self.tokens)
        new = Increment(
            self.index,
            "",
            [token],
            None if logprob is None else [logprob],
            None,
            None,
            len(self.prompt),
            count,
        )
        if count == 1:
            new.ttft_s = now - self.arrived
            new.cached_tokens = self.reused
            new.prompt_logprobs = None if self.prompt_logprobs is None else self._scores
        if token in self.ends or token in self.stop_tokens:
            # The text of an end token is not part of the answer; its id is.
            new.finish_reason = "stop"
            new.stop_reason = token if token in self.stop_tokens else None
            new.text = self._last("")
        else:
            text = self.text(token)
            if count >= self.choice.params.min_tokens:
                new.text, stop = self.stops(text)
                if stop is not None:
                    new.finish_reason, new.stop_reason = "stop", stop
            else:
                new.text = text
            if new.finish_reason is None and self.choice.over:
                new.finish_reason = "stop"
                new.text += self._last("")
            if new.finish_reason is None and count >= self.limit:
                new.finish_reason = "length"
                new.text += self._last("")
        self.finished = new.finish_reason is not None
        return new

    def aborted(self) -> Increment:
        """Abort the answer and return its last increment."""
        self.finished = True
        return Increment(self.index, "", [], None, "abort", None, len(self.prompt), len(self.tokens))

    def _last(self, text: str) -> str:
        """Return the text held by the detokenizer and the stop texts, cut at a stop text that is complete only now."""
        out, stop = self.stops(text + self.text.rest())
        return out if stop is not None else out + self.stops.rest()
