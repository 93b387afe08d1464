"""API keys. A request without a valid key receives 401 in OpenAI's format."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from skate.llm.openai import failures
from skate.llm.openai.client_identity import CHECKED_KEY
from skate.llm.openai.responses import as_json


class ApiKeys:
    """Keys stored as digests, so that no log, error or pickle contains one."""

    def __init__(self, keys: Iterable[str]) -> None:
        given = [key.strip() for key in keys]
        if not given or not all(given):
            raise ValueError("api_keys must be a non-empty list of non-empty keys")
        self._digests = [_digest(key.encode()) for key in given]

    def has(self, key: bytes) -> bool:
        """Return True if the key is valid. The comparison takes constant time."""
        digest = _digest(key)
        matches = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(matches)

    def __len__(self) -> int:
        return len(self._digests)

    def __repr__(self) -> str:
        return f"ApiKeys({len(self)})"


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class KeyCheck:
    """Middleware that rejects requests without a valid key with 401."""

    OPEN: Collection[str] = ("/health", "/metrics")

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request if its key is valid, else respond with 401."""
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) in self.OPEN:
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, key = given.partition(b" ")
        if kind.lower() == b"bearer" and self._keys.has(key.strip()):
            scope[CHECKED_KEY] = key.strip()
            await self._app(scope, receive, send)
            return
        message = (
            "Incorrect API key provided" if key.strip() else "You did not provide an API key as bearer token"
        )
        await as_json(failures.response(401, message, code="invalid_api_key"))(scope, receive, send)
