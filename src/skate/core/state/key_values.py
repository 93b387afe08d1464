"""The key-value store of programs, kept by the head of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from skate.protocol import registry_records as rr
from skate.protocol.registry_records import EntryGone, EntryRecord, RegistryRecord

#: What a query changes: the records of that, and its answer.
Change: TypeAlias = tuple[list[RegistryRecord], Any]


class KeyValues:
    """Small values, by namespace and key. The first argument of each verb is the client that asks."""

    def __init__(self) -> None:
        self.kept: dict[tuple[bytes, bytes], bytes] = {}
        self.verbs: dict[str, Callable[..., Any]] = {
            "kv_put": self.put,
            "kv_get": self.get,
            "kv_delete": self.delete,
            "kv_keys": self.keys,
        }
        #: The records and answers of the verbs that change something.
        self.records: dict[str, Callable[..., Change]] = {
            "kv_put": self._records_of_put,
            "kv_delete": self._records_of_delete,
        }

    def put(self, cid: int, namespace: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value under a key; return True if there was one, which stays unless `overwrite` is set."""
        exists = (namespace, key) in self.kept
        if overwrite or not exists:
            self.kept[namespace, key] = value
        return exists

    def get(self, cid: int, namespace: bytes, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self.kept.get((namespace, key))

    def delete(self, cid: int, namespace: bytes, key: bytes, by_prefix: bool) -> int:
        """Delete a key, or all keys that start with it; return the number deleted."""
        gone = self.keys(cid, namespace, key) if by_prefix else [key]
        return sum(self.kept.pop((namespace, each), None) is not None for each in gone)

    def keys(self, cid: int, namespace: bytes, prefix: bytes) -> list[bytes]:
        """Return the keys that start with a prefix."""
        return sorted(key for space, key in self.kept if space == namespace and key.startswith(prefix))

    def _records_of_put(
        self, cid: int, namespace: bytes, key: bytes, value: bytes, overwrite: bool
    ) -> Change:
        exists = (namespace, key) in self.kept
        return ([EntryRecord(rr.ENTRY, namespace, key, value)] if overwrite or not exists else []), exists

    def _records_of_delete(self, cid: int, namespace: bytes, key: bytes, by_prefix: bool) -> Change:
        keys = self.keys(cid, namespace, key) if by_prefix else [key]
        gone = [each for each in keys if (namespace, each) in self.kept]
        return [EntryGone(rr.ENTRY_GONE, namespace, each) for each in gone], len(gone)

    def __repr__(self) -> str:
        return f"<KeyValues {len(self.kept)} keys>"
