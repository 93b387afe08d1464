"""Requests through a session of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.data.llm.http_stage import HttpRequestCall


class Session:
    """A session like aiohttp's, which fails once and then echoes."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], bytes]] = []

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.posts.append(("closed", {}, b""))

    def post(self, url: str, headers: dict[str, str], data: bytes) -> Answer:
        self.posts.append((url, headers, data))
        return Answer(data, fails=len(self.posts) == 1)


class Answer:
    """An answer of the session."""

    status = 200
    reason = None

    def __init__(self, content: bytes, fails: bool) -> None:
        self.content = content
        self.fails = fails

    async def __aenter__(self) -> Answer:
        if self.fails:
            raise ConnectionResetError("cut off")
        return self

    async def __aexit__(self, *error: Any) -> None:
        return None

    async def read(self) -> bytes:
        return self.content


def test_a_session_is_used_retried_and_closed() -> None:
    session = Session()
    call = HttpRequestCall(
        "__data",
        ["payload"],
        "http://x/",
        max_retries=1,
        base_retry_wait_time_in_s=0,
        session_factory=lambda: session,
    )
    column = np.array([{"payload": {"n": 1}}], dtype=object)
    assert call({"__data": column}) == {"__data": [{"payload": {"n": 1}, "http_response": {"n": 1}}]}
    assert [post[0] for post in session.posts] == ["http://x/", "http://x/", "closed"]
