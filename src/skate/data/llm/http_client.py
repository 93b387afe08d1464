"""HTTP clients: the standard library's, or a session from the user's function."""

from __future__ import annotations

import asyncio
import http.client
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: Seconds without a byte from the other side after which a request counts as failed; models can think for long.
_TIMEOUT_S = 300.0


class StandardClient:
    """A client that runs urllib in one thread per concurrent request."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads)

    async def __aenter__(self) -> StandardClient:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._threads.shutdown(wait=False)

    async def post(self, url: str, content: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Return status, reason and content of the response. Raises OSError if the connection failed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _post, url, content, headers)


def _post(url: str, content: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, data=content, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.reason, answer.read()
    except urllib.error.HTTPError as error:  # also a response, though not 2xx
        with error:
            return error.code, str(error.reason), error.read()
    except http.client.HTTPException as error:  # truncated, or not HTTP
        raise ConnectionError(f"{type(error).__name__}: {error}") from error


class SessionClient:
    """A client with a session like aiohttp's."""

    def __init__(self, factory: Any) -> None:
        self._session = None
        self._factory = factory

    async def __aenter__(self) -> SessionClient:
        self._context = self._factory()
        self._session = await self._context.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._context.__aexit__(*error)

    async def post(self, url: str, content: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Send a POST request, like `StandardClient.post`."""
        session: Any = self._session
        try:
            async with session.post(url, headers=headers, data=content) as answer:
                return answer.status, answer.reason or "", await answer.read()
        except Exception as error:
            # The library has its own error types; only connection errors can be retried
            if type(error).__name__ in ("ClientPayloadError", "ServerDisconnectedError"):
                raise ConnectionError(f"{type(error).__name__}: {error}") from error
            raise
