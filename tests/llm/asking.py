"""Requests to an engine in tests, and what came of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate.llm import Engine, Increment, SamplingParams, TokenLogprob

_numbers = itertools.count()


@dataclass
class Answered:
    """One answer, put together."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_tokens: int = 0

    def take(self, new: Increment) -> None:
        """Add an increment."""
        self.text += new.text
        self.tokens += new.token_ids
        self.logprobs += new.logprobs or []
        self.finish_reason, self.stop_reason = new.finish_reason, new.stop_reason
        self.prompt_tokens = new.prompt_tokens
        assert new.completion_tokens == len(self.tokens)


async def ask_all(engine: Engine, prompt: Any, adapter: str | None = None, **params: Any) -> list[Answered]:
    """All answers of a request."""
    params_given = SamplingParams(**{"temperature": 0.0, **params})
    answers = [Answered() for _ in range(params_given.n)]
    async for new in engine.generate(prompt, params_given, f"r{next(_numbers)}", adapter):
        answers[new.index].take(new)
    assert all(each.finish_reason for each in answers)
    return answers


async def ask(engine: Engine, prompt: Any, adapter: str | None = None, **params: Any) -> Answered:
    """The only answer of a request."""
    return (await ask_all(engine, prompt, adapter, **params))[0]


async def until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Let the engine continue until a condition holds; a failure says what was awaited."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        await asyncio.sleep(0)  # a turn of the loop, in which the engine is heard
