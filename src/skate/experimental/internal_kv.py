"""A key-value store for small values, shared by all processes of a session. Ray's names for it start with an
underscore."""

from __future__ import annotations

from typing import Any

from skate.client.session import keyvalue, session

Text = Any  # str or bytes


def _internal_kv_initialized() -> bool:
    """True while a session runs in this process."""
    return session.is_initialized()


def _initialize_internal_kv(gcs_client: Any = None) -> None:
    """No-op: the store belongs to the session."""


def _internal_kv_reset() -> None:
    """No-op: the store ends with the session."""


def internal_kv_get_gcs_client() -> Any:
    """Return None: there is no such server here."""
    return None


def _internal_kv_get(key: Text, *, namespace: Text | None = None) -> bytes | None:
    """Return the value of a key; None if there is none."""
    return keyvalue.get(key, namespace)


def _internal_kv_exists(key: Text, *, namespace: Text | None = None) -> bool:
    """True if there is a value under a key."""
    return keyvalue.get(key, namespace) is not None


def _internal_kv_put(
    key: Text, value: Text, overwrite: bool = True, *, namespace: Text | None = None
) -> bool:
    """Store a value under a key; return True if the key already existed."""
    return keyvalue.put(key, value, overwrite, namespace)


def _internal_kv_del(key: Text, *, del_by_prefix: bool = False, namespace: Text | None = None) -> int:
    """Delete a key, or all keys with that prefix; return their number."""
    return keyvalue.delete(key, del_by_prefix, namespace)


def _internal_kv_list(prefix: Text, *, namespace: Text | None = None) -> list[bytes]:
    """Return the keys that start with a prefix."""
    return keyvalue.keys(prefix, namespace)


global_gcs_client = None
