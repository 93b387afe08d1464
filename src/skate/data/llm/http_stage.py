"""The stage that sends each row's payload by POST, with a rate limit and with retries if the server is busy."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from skate.data.llm.http_body import Body, body_of
from skate.data.llm.http_client import SessionClient, StandardClient
from skate.data.llm.stage import Stage, StageCall

#: Responses worth a retry: timeout, too many requests, and gateways that cannot reach their server.
_AGAIN = frozenset({408, 429, 502, 503, 504})
#: Concurrent requests of an actor with a rate limit.
_AT_ONCE = 64


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    reason: str
    content: bytes


class RateLimiter:
    """Spaces the start of requests evenly, `qps` per second; None means no limit."""

    def __init__(self, qps: int | None) -> None:
        self._gap = 1 / qps if qps else 0.0
        self._next = 0.0

    async def turn(self) -> None:
        """Wait until the next request may start."""
        if not self._gap:
            return
        now = time.monotonic()
        at = max(now, self._next)
        self._next = at + self._gap
        if at > now:
            await asyncio.sleep(at - now)


class HttpRequestCall(StageCall):
    """Adds `http_response`, the response's JSON. Without `qps`, requests are sent one after another."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: Sequence[str],
        url: str,
        additional_header: dict[str, Any] | None = None,
        qps: int | None = None,
        max_retries: int = 0,
        base_retry_wait_time_in_s: float = 1.0,
        session_factory: Any = None,
    ) -> None:
        super().__init__(data_column, expected_input_keys)
        self.url = url
        self.headers = {name: str(value) for name, value in (additional_header or {}).items()}
        self.max_retries = max_retries
        self.base_wait = base_retry_wait_time_in_s
        self._at_once = _AT_ONCE if qps else 1
        self._limiter = RateLimiter(qps)
        self._session_factory = session_factory

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the response to each row's payload."""
        return asyncio.run(self._all([row["payload"] for row in rows]))

    async def _all(self, payloads: list[Any]) -> list[dict[str, Any]]:
        slots = asyncio.Semaphore(self._at_once)
        client: Any = StandardClient(self._at_once)
        if self._session_factory is not None:
            client = SessionClient(self._session_factory)
        async with client:

            async def one(payload: Any) -> dict[str, Any]:
                async with slots:
                    return {"http_response": await self._answered(client, payload)}

            tasks = [asyncio.ensure_future(one(payload)) for payload in payloads]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:  # after the first failure the other requests are cancelled
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _answered(self, client: Any, payload: Any) -> Any:
        body = body_of(payload, self.headers)
        why = ""
        for attempt in range(self.max_retries + 1):
            await self._limiter.turn()
            try:
                answer = Answer(*await client.post(self.url, body.content, body.headers))
            except (OSError, asyncio.TimeoutError) as error:
                why = f"{type(error).__name__}: {error}"
            else:
                if answer.status not in _AGAIN:
                    return self._value(answer)
                why = f"the response was {answer.status} {answer.reason}"
            if attempt < self.max_retries:
                await asyncio.sleep(self.base_wait * 2**attempt)
        raise RuntimeError(
            f"POST {self.url} failed {self.max_retries + 1} times (max_retries={self.max_retries}); last error: "
            f"{why}; payload: {_shown(body)}"
        )

    def _value(self, answer: Answer) -> Any:
        try:
            return json.loads(answer.content)
        except ValueError:
            start = answer.content[:200].decode(errors="replace")
            raise ValueError(
                f"POST {self.url} returned {answer.status} {answer.reason} with a body that is not JSON: {start!r}"
            ) from None


def _shown(body: Body) -> str:
    return body.content[:200].decode(errors="replace")


class HttpRequestStage(Stage):
    """A stage that sends payloads to a URL."""

    fn = HttpRequestCall

    def get_required_input_keys(self) -> dict[str, str]:
        """The payload column and its meaning."""
        return {"payload": "the request body: JSON, or a form if a value is bytes or a dict with content"}
