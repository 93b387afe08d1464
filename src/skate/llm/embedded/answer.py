"""One answer while it is generated: its prompt, its tokens, its text, and whether it is at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skate.llm.detokenizer import Detokenizer, StopTexts
from skate.llm.embedded.sampler import Choice
from skate.llm.output import Increment, TokenLogprob

if TYPE_CHECKING:
    from skate.llm.embedded.stream import Stream


@dataclass(eq=False)
class Answer:
    """One of a request's answers.

    Args:
        request_id, index: the request, and the number of the answer.
        prompt: its tokens.
        choice: selects tokens.
        limit: the most tokens to generate.
        ends: the model's end tokens, which end the answer without a stop reason.
        stop_tokens: tokens that end it and are its stop reason.
        text, stops: turn tokens into text, and find stop texts.
        stream: receives increments.
        adapter: a LoRA adapter's name.
        client: the client that shares the engine with others; "" for callers in the same process.
        arrived: the engine's clock time of arrival, in seconds.
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
    arrived: float = 0.0
    slot: int = -1
    #: The number of its admission; a later one is preempted first.
    admitted: int = 0
    #: True if it has lost its slot to another client and resumes later.
    preempted: bool = False
    #: How many of its tokens, prompt first, have keys in the cache.
    cached: int = 0
    #: How many of the prompt's were there before.
    reused: int = 0
    tokens: list[int] = field(default_factory=list)
    finished: bool = False
    _resumed: list[int] | None = None

    @property
    def request(self) -> str:
        """The request that it belongs to; the prompts of a request differ in what follows the last dash of their id."""
        return self.request_id.rpartition("-")[0]

    @property
    def start(self) -> Sequence[int]:
        """The tokens to compute before the next can be chosen: the prompt, and after a preemption the answer so far."""
        return self._resumed or self.prompt

    @property
    def prefilling(self) -> bool:
        """True if tokens of `start` are still to be computed."""
        return self.cached < len(self.start)

    def preempt(self) -> None:
        """Give up the slot; all tokens but the last, which is not cached yet, are computed again or copied at resumption."""
        self._resumed = [*self.prompt, *self.tokens[:-1]] if self.tokens else None
        self.preempted = True
        self.cached = 0
        self.slot = -1

    def barred(self) -> frozenset[int]:
        """The tokens that are forbidden now because they would end the answer too early."""
        if len(self.tokens) < self.choice.params.min_tokens:
            return self.ends | self.stop_tokens
        return frozenset()

    def take(self, token: int, logprob: TokenLogprob | None, now: float) -> Increment:
        """Add a token, and return the increment."""
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
        """Abort the answer, and return its last increment."""
        self.finished = True
        return Increment(self.index, "", [], None, "abort", None, len(self.prompt), len(self.tokens))

    def _last(self, text: str) -> str:
        """Return the text held by detokenizer and stop texts, cut at a stop text that completes only at the end."""
        out, stop = self.stops(text + self.text.rest())
        return out if stop is not None else out + self.stops.rest()
