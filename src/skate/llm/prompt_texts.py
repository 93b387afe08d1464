"""Tokenization of requests. Overlong texts are rejected by length, and long texts are tokenized outside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from skate.llm.engine import Text
from skate.llm.errors import Overloaded, PromptTooLong
from skate.llm.fair_queue import FairQueue

R = TypeVar("R")
Arranged = Callable[
    [Sequence[dict[str, Any]], dict[str, Any]], tuple[Sequence[dict[str, Any]], dict[str, Any]]
]
Render = Callable[[Sequence[dict[str, Any]], str | None, dict[str, Any]], Awaitable[list[int]]]
#: Texts of up to this many characters are tokenized in the event loop, which is faster than a switch of threads.
_SHORT_CHARS = 2048
_SHORT_MESSAGES = 16
#: The most long texts that may wait for the thread that tokenizes them.
_WAITING_MAX = 64


@dataclass(frozen=True, eq=False)
class _Job:
    """A job for a long text, waiting for the thread."""

    client: str
    work: Callable[[], Any]
    result: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    request: str = ""


class PromptTexts:
    """Tokenizes the texts of requests.

    A text that must exceed the context, given the vocabulary's longest token, is rejected before tokenization.
    Long texts share one thread, in which clients take turns. Short texts do not wait for it.

    Args:
        text: the tokenizer.
        limit: returns the most tokens of a prompt.
    """

    def __init__(self, text: Callable[[], Text], limit: Callable[[], int]) -> None:
        self._text = text
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: FairQueue[_Job] = FairQueue()
        self._works = False

    async def encode(self, text: str, special: bool = True, client: str = "") -> list[int]:
        """Return the tokens of a text. Raises PromptTooLong, Overloaded."""
        self._measure(len(text))
        if len(text) <= _SHORT_CHARS:
            return self._text().encode(text, special)
        return await self._beside(lambda: self._text().encode(text, special), client)

    async def chat(
        self,
        messages: Sequence[dict[str, Any]],
        template: str | None = None,
        options: dict[str, Any] | None = None,
        client: str = "",
        arranged: Arranged | None = None,
        render: Render | None = None,
    ) -> list[int]:
        """Return the tokens of a conversation. Raises as `encode` does, and BadRequest if the template rejects messages.

        `arranged` returns the messages and options for the template, given those of the request. `render` replaces
        template and tokenizer.
        """
        size = sum(map(_characters, messages))
        self._measure(size)
        limit = self._limit()
        if len(messages) > limit:  # a message has at least the token that separates it from the next
            raise PromptTooLong(len(messages), limit, at_least=True)

        if render is not None:
            changed, changed_options = messages, options or {}
            if arranged is not None:
                changed, changed_options = await asyncio.to_thread(arranged, changed, changed_options)
            return await render(changed, template, changed_options)

        def work() -> list[int]:
            if arranged is None:
                prompt = self._text().chat(messages, template, **(options or {}))
            else:
                changed, changed_options = arranged(messages, options or {})
                prompt = self._text().chat(changed, template, **changed_options)
            self._measure(len(prompt))
            return self._text().encode(prompt, False)

        # A template in the request is an untrusted program.
        if (
            size <= _SHORT_CHARS
            and len(messages) <= _SHORT_MESSAGES
            and template is None
            and not (options or arranged)
        ):
            return work()
        return await self._beside(work, client)

    async def apart(self, size: int, work: Callable[[], R], client: str = "") -> R:
        """Run other work on a request's texts, which have `size` characters in total."""
        return work() if size <= _SHORT_CHARS else await self._beside(work, client)

    def _measure(self, characters: int) -> None:
        longest = getattr(self._text(), "longest_token", None)
        if longest is None:
            return
        limit = self._limit()
        least = math.ceil(characters / longest)
        if least > limit:
            raise PromptTooLong(least, limit, at_least=True)

    async def _beside(self, work: Callable[[], R], client: str) -> R:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[R] = loop.create_future()
        with self._lock:
            if len(self._waiting) >= _WAITING_MAX and not self._evict(client):
                raise Overloaded(f"{_WAITING_MAX} long prompts are already waiting; try again later")
            self._waiting.extend([_Job(client, work, result, loop)])
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name="skate-llm-text", daemon=True).start()
        return await result

    def _evict(self, client: str) -> bool:
        """Reject the last text of the busiest client if `client` would still have fewer; return True if one was rejected."""
        largest = self._waiting.largest()
        if largest is None or self._waiting.size(largest) <= self._waiting.size(client) + 1:
            return False
        *_, job = self._waiting.of(largest)
        self._waiting.remove(job)
        rejection = Overloaded("other clients need the place in the queue; try again later")
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
            job.loop.call_soon_threadsafe(_settle, job.result, None, rejection)
        return True

    def _work(self) -> None:
        """Run the waiting jobs, and end the thread when none is left."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                job = self._waiting.popleft()
            if job.result.cancelled():  # the client has disconnected
                continue
            found: Any = None
            error: BaseException | None = None
            try:
                found = job.work()
            except BaseException as caught:  # a tokenizer may also panic; the caller receives the error
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
                job.loop.call_soon_threadsafe(_settle, job.result, found, error)


def _characters(message: dict[str, Any]) -> int:
    """Return the length of a message's text, without its media."""
    content = message["content"]
    return len(content) if isinstance(content, str) else sum(len(part.get("text") or "") for part in content)


def _settle(result: asyncio.Future[Any], found: Any, error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(found)
    elif isinstance(error, Exception):
        result.set_exception(error)
    else:
        result.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
