"""A key-value store for small values, kept by the head of the session for all its processes."""

from __future__ import annotations

from typing import Any

from skate.client.session import session


def put(
    key: str | bytes, value: str | bytes, overwrite: bool = True, namespace: str | bytes | None = None
) -> bool:
    """Store a value; return True if there was one already, which stays unless `overwrite`."""
    return bool(_ask("kv_put", _bytes(namespace), _bytes(key), _bytes(value), overwrite))


def get(key: str | bytes, namespace: str | bytes | None = None) -> bytes | None:
    """Return the value of a key, or None."""
    found: bytes | None = _ask("kv_get", _bytes(namespace), _bytes(key))
    return found


def delete(key: str | bytes, by_prefix: bool = False, namespace: str | bytes | None = None) -> int:
    """Delete a key, or all keys with this prefix; return how many there were."""
    return int(_ask("kv_delete", _bytes(namespace), _bytes(key), by_prefix))


def keys(prefix: str | bytes, namespace: str | bytes | None = None) -> list[bytes]:
    """Return the keys that start with a prefix, in order."""
    return list(_ask("kv_keys", _bytes(namespace), _bytes(prefix)))


def _ask(verb: str, *arguments: Any) -> Any:
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session runs, so there are no keys and values; call init() first")
    return process.request(verb, *arguments)


def _bytes(text: str | bytes | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""
