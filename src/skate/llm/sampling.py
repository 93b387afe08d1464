"""Validated sampling parameters of a request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from skate.llm.errors import BadRequest

#: The most alternatives for each token; OpenAI's limit.
TOP_LOGPROBS_MAX = 20
#: The largest absolute value of a bias; OpenAI's limit.
LOGIT_BIAS_MAX = 100


@dataclass(frozen=True)
class SamplingParams:
    """The parameters of one request. Names and defaults are vLLM's, which follow OpenAI's.

    Args:
        n: the number of answers, each with its own random numbers.
        max_tokens: the most tokens of an answer; None for all that fit into the context.
        min_tokens: the number of tokens before any stop condition applies.
        temperature: the randomness of the choice; 0 always takes the likeliest token.
        top_p: sample from the likeliest tokens with this total probability.
        top_k: sample from this many likeliest tokens; 0 or -1 for all.
        min_p: the least probability of a token, relative to the likeliest.
        seed: makes the answer reproducible, regardless of other requests; None for a different answer each time.
        presence_penalty, frequency_penalty: subtracted from the logits of generated tokens, once or per occurrence.
        repetition_penalty: divides the logits of tokens in prompt and answer, or multiplies negative ones.
        logit_bias: values from -100 to 100 that are added to the logits of single tokens.
        stop: texts that end the answer; they are excluded unless `include_stop_str_in_output`.
        stop_token_ids: tokens that end the answer.
        ignore_eos: continue after the model's end token.
        logprobs: the number of alternatives for each token; None for no log probabilities.
        skip_special_tokens: True to exclude the model's control tokens from the text.
    """

    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] | None = None
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    logprobs: int | None = None
    skip_special_tokens: bool = True
    #: Parameters of other engines; the embedded engine supports only `structured_outputs`.
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids or ()))
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if value is not None and not (low <= value <= high and math.isfinite(value)):
                bound = f"from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
                raise BadRequest(f"{name} must be {bound}, got {value!r}", name)
        for token, bias in (self.logit_bias or {}).items():
            if not abs(bias) <= LOGIT_BIAS_MAX:  # `not <=` also rejects NaN
                raise BadRequest(
                    f"logit_bias must be from {-LOGIT_BIAS_MAX} to {LOGIT_BIAS_MAX}, got {bias!r} (token {token})",
                    "logit_bias",
                )
        if self.top_p == 0:
            raise BadRequest("top_p must be above 0 and at most 1", "top_p")
        if not all(isinstance(each, str) and each for each in stop):
            raise BadRequest("stop must be a non-empty string or a list of non-empty strings", "stop")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise BadRequest(
                f"min_tokens={self.min_tokens} is above max_tokens={self.max_tokens}", "min_tokens"
            )

    @property
    def greedy(self) -> bool:
        """True if each choice takes the likeliest token."""
        return self.temperature < 1e-5

    @classmethod
    def of(cls, given: dict[str, Any]) -> SamplingParams:
        """Build parameters from a dict. Unknown keys go to `extra`, and None counts as not given."""
        known = {each.name for each in fields(cls)} - {"extra"}
        values = {name: value for name, value in given.items() if value is not None}
        extra = {name: value for name, value in values.items() if name not in known}
        return cls(**{name: value for name, value in values.items() if name in known}, extra=extra)


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("n", 1, 128),
    ("max_tokens", 1, math.inf),
    ("min_tokens", 0, math.inf),
    ("temperature", 0, 2),
    ("top_p", 0, 1),
    ("top_k", -1, math.inf),
    ("min_p", 0, 1),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("repetition_penalty", 0.01, 10),
    ("logprobs", 0, TOP_LOGPROBS_MAX),
)
