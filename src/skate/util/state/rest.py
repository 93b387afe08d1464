"""Queries of the state API over HTTP, to a dashboard of Skate or of Ray."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

from skate.util.http.token_client import opener_for
from skate.util.state import auth_token
from skate.util.state.common import SCHEMAS, Filter
from skate.util.state.exception import RayStateApiException, ServerUnavailable

#: The server waits as long as it is asked to; its answer needs a little more.
ANSWER_SECONDS = 5.0
#: Headers that a client adds to its requests.
_added: ContextVar[Mapping[str, str]] = ContextVar("skate_state_headers", default={})  # noqa: B039 (it is never changed)


def is_url(address: str | None) -> bool:
    """Return True for the address of a dashboard, such as http://127.0.0.1:8265."""
    return bool(address) and str(address).startswith(("http://", "https://"))


@contextmanager
def adding(headers: Mapping[str, str]) -> Iterator[None]:
    """Add headers to the requests within the block; an Authorization replaces the user's own token."""
    before = _added.set(headers)
    try:
        yield
    finally:
        _added.reset(before)


@contextmanager
def opened(address: str, path: str, timeout: float | None, query: Any = ()) -> Iterator[HTTPResponse]:
    """Yield the answer to a GET.

    Raises ServerUnavailable if nobody answers, RayStateApiException with the server's text for an error.
    """
    token = auth_token.find(urlsplit(address).hostname or "")
    request = urllib.request.Request(f"{address.rstrip('/')}{path}?{urlencode(query)}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    for name, value in _added.get().items():
        request.add_header(name, value)
    try:
        with opener_for(address).open(request, timeout=timeout) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            raise RayStateApiException(_text_of(error)) from None
    except OSError as error:
        raise ServerUnavailable(f"{address} does not answer: {error}") from None


def _text_of(error: urllib.error.HTTPError) -> str:
    body = error.read().decode(errors="replace")
    try:
        message = json.loads(body)["msg"]
    except (ValueError, KeyError, TypeError):
        message = body
    hint = "; set RAY_AUTH_TOKEN to the token of the server" if error.code in (401, 403) else ""
    return f"{message or error.reason} (status {error.code}){hint}"


def ask(address: str, path: str, timeout: float, query: Any = ()) -> Any:
    """Return the result in an answer of Ray's form. Raises what `opened` raises."""
    with opened(address, path, timeout + ANSWER_SECONDS, [*query, ("timeout", int(timeout))]) as answer:
        found = json.load(answer)
    if not found["result"]:
        raise RayStateApiException(found["msg"])
    return found["data"]["result"]


def rows(
    address: str, kind: str, filters: list[Filter], limit: int, timeout: float, detail: bool
) -> list[Any]:
    """Return the rows of a kind that pass the filters, as dataclasses. Raises what `opened` raises."""
    query: list[tuple[str, Any]] = [("limit", limit), ("detail", int(detail))]
    for key, predicate, value in filters:
        query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    found = ask(address, f"/api/v0/{kind}", timeout, query)
    schema = SCHEMAS[kind]
    shown = schema.list_columns(detail=detail)
    return [schema(**{name: row.get(name) for name in shown}) for row in found["result"]]


def summary(address: str, kind: str, timeout: float) -> dict[str, Any]:
    """Return the summary of a kind. Raises what `opened` raises."""
    found: dict[str, Any] = ask(address, f"/api/v0/{kind}/summarize", timeout)
    return dict(found["result"]["node_id_to_summary"])
