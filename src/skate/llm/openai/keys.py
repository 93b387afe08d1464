"""API keys: a request without a valid one gets 401 in OpenAI's format."""

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
            raise ValueError("api_keys must be a non-empty list of keys that are not empty")
        self._digests = [_digest(key.encode()) for key in given]

    def has(self, key: bytes) -> bool:
        """True if the key is valid. All keys are compared in constant time."""
        digest = _digest(key)
        right = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(right)

    def __len__(self) -> int:
        return len(self._digests)

    def __repr__(self) -> str:
        return f"ApiKeys({len(self)})"


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class KeyCheck:
    """Middleware: requests without one of the keys are refused with 401."""

    OPEN: Collection[str] = ("/health", "/metrics")

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if its key is valid, else respond with 401."""
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) in self.OPEN:
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, key = given.partition(b" ")
        if kind.lower() == b"bearer" and self._keys.has(key.strip()):
            scope[CHECKED_KEY] = key.strip()
            await self._app(scope, receive, send)
            return
        said = (
            "Incorrect API key provided" if key.strip() else "You did not provide an API key as bearer token"
        )
        await as_json(failures.response(401, said, code="invalid_api_key"))(scope, receive, send)
