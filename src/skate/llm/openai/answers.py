"""The answers of a request: increments of several streams as one, and whole answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from skate.llm.openai.responses import Usage
from skate.llm.output import Increment, TokenLogprob


class Answers:
    """The growing answers of a request without streaming."""

    def __init__(self, count: int) -> None:
        self.texts = [""] * count
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.logprobs: list[list[TokenLogprob]] = [[] for _ in range(count)]
        self.ends: list[Increment | None] = [None] * count
        self.cached = 0
        self.prompt_logprobs: dict[int, list[TokenLogprob | None]] = {}
        self.kv_transfer_params: dict[str, Any] | None = None

    def take(self, at: int, new: Increment) -> None:
        """Add an increment of answer `at`."""
        self.texts[at] += new.text
        self.tokens[at] += new.token_ids
        self.logprobs[at] += new.logprobs or []
        self.ends[at] = new
        self.cached += new.cached_tokens
        if new.prompt_logprobs is not None:
            self.prompt_logprobs[at] = new.prompt_logprobs
        self.kv_transfer_params = new.kv_transfer_params or self.kv_transfer_params


async def prompt_alone(stream: AsyncGenerator[Increment, None]) -> AsyncGenerator[Increment, None]:
    """Yield what a stream of one token says about the prompt, without that token."""
    async with aclosing(stream) as found:
        async for new in found:
            yield replace(
                new,
                text="",
                token_ids=[],
                logprobs=None,
                stop_reason=None,
                finish_reason="length" if new.finish_reason == "stop" else new.finish_reason,
                completion_tokens=0,
            )


async def merged(
    streams: Sequence[AsyncGenerator[Increment, None]],
) -> AsyncGenerator[tuple[int, Increment], None]:
    """Yield increments of several streams, each with its stream's number. Closing the iterator closes all streams."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for new in only:
                yield 0, new
        return
    queue: asyncio.Queue[tuple[int, Increment | BaseException | None]] = asyncio.Queue()

    async def pump(number: int, stream: AsyncGenerator[Increment, None]) -> None:
        try:
            async with aclosing(stream):
                async for new in stream:
                    queue.put_nowait((number, new))
            queue.put_nowait((number, None))
        except Exception as error:  # raised where the merged stream is read
            queue.put_nowait((number, error))

    tasks = [asyncio.create_task(pump(number, stream)) for number, stream in enumerate(streams)]
    try:
        left = len(tasks)
        while left:
            number, found = await queue.get()
            if found is None:
                left -= 1
            elif isinstance(found, BaseException):
                raise found
            else:
                yield number, found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def collected(found: AsyncGenerator[tuple[int, Increment], None], count: int) -> Answers:
    """Return the whole answers."""
    answers = Answers(count)
    async with aclosing(found):
        async for at, new in found:
            answers.take(at, new)
    return answers


def usage_of(prompt_tokens: int, answers: Answers) -> Usage:
    """Return the token counts of a request."""
    generated = sum(end.completion_tokens for end in answers.ends if end is not None)
    return Usage.of(prompt_tokens, generated, answers.cached)
