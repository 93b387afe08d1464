"""The output of engines: increments of answers, and embeddings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TokenLogprob:
    """A chosen token with its log probability, and the likeliest alternatives with theirs.

    `ranks` are those of the alternatives in the whole vocabulary, from 1; only tokens of prompts have them.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass
class Increment:
    """An increment of one of a request's answers. The last increment has a `finish_reason`.

    Args:
        index: the number of the answer, from 0.
        text: new text; may be empty while a character or a possible stop text is incomplete.
        token_ids: new tokens.
        logprobs: one for each new token, if requested.
        finish_reason: "stop", "length" or "abort"; None while the answer continues.
        stop_reason: the stop text or token that ended the answer; None for the model's end token.
        prompt_tokens, completion_tokens: the token counts so far.
        ttft_s: the engine's time to the first token in seconds, set in the first increment.
        kv_transfer_params: where another engine finds the prompt's keys and values, if their transfer was requested.
        cached_tokens: the number of prompt tokens found in the cache, set in the first increment.
        prompt_logprobs: one for each token of the prompt, None for the first; in each answer's first increment, if requested.
    """

    index: int
    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprob] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ttft_s: float | None = None
    cached_tokens: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    prompt_logprobs: list[TokenLogprob | None] | None = None

    def then(self, later: Increment) -> None:
        """Append a later increment of the same answer."""
        self.text += later.text
        self.token_ids += later.token_ids
        if later.logprobs is not None:
            self.logprobs = self.logprobs if self.logprobs is not None else []
            self.logprobs += later.logprobs
        self.finish_reason, self.stop_reason = later.finish_reason, later.stop_reason
        self.completion_tokens = later.completion_tokens
        self.kv_transfer_params = later.kv_transfer_params or self.kv_transfer_params


@dataclass(frozen=True)
class Embedding:
    """A text as a vector of length 1."""

    vector: list[float]
    prompt_tokens: int


@dataclass(frozen=True)
class Score:
    """The score of a pair of texts."""

    value: float
    prompt_tokens: int


@dataclass(frozen=True)
class ModelInfo:
    """The properties of a running model. `max_model_len` counts the tokens of prompt and answer together."""

    model: str
    engine: str
    max_model_len: int
    max_num_seqs: int
    vocab_size: int
    end_tokens: tuple[int, ...] = ()
    adapters: tuple[str, ...] = ()
    parameters: int = 0
    more: dict[str, object] = field(default_factory=dict)
