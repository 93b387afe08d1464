"""Choice of a replica by the start of a request's prompt, or by its session. All functions are pure.

A replica that has processed the start of a prompt may still have its keys and values. A request goes to the
replica that has processed most of its prompt, unless that replica is much busier than others.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Texts are recorded in pieces of this many characters.
_PIECE = 64


class Prefixes:
    """The texts that each replica has processed, in pieces. The oldest pieces are dropped first.

    The key of a piece is the hash of all text up to its end, so that one lookup checks the whole prefix.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._most = most
        self._had: OrderedDict[bytes, dict[str, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._had)

    def add(self, text: str, replica: str) -> None:
        """Record that a replica has processed a text."""
        for key in _keys(text):
            self._had.setdefault(key, {})[replica] = None
            self._had.move_to_end(key)
        while len(self._had) > self._most:
            self._had.popitem(last=False)

    def drop(self, replica: str) -> None:
        """Remove a replica that has ended."""
        for key in [key for key, replicas in self._had.items() if replica in replicas]:
            self._had[key].pop(replica)
            if not self._had[key]:
                del self._had[key]

    def longest(self, text: str, replicas: Iterable[str]) -> tuple[float, list[str]]:
        """Return the largest share of a text that replicas have processed, and these replicas."""
        left = set(replicas)
        best: list[str] = []
        pieces = 0
        keys = list(_keys(text))
        for number, key in enumerate(keys, 1):
            left &= self._had.get(key, {}).keys()
            if not left:
                break
            pieces, best = number, sorted(left)
        return (pieces / len(keys) if keys else 0.0), best


def _keys(text: str) -> Iterable[bytes]:
    state = hashlib.blake2b(digest_size=12)
    for at in range(0, len(text), _PIECE):
        state.update(text[at : at + _PIECE].encode("utf-8", "surrogatepass"))
        yield state.digest()


def by_prefix(
    text: str | None,
    loads: Mapping[str, int],
    prefixes: Prefixes,
    *,
    imbalanced_threshold: float = float("inf"),
    match_rate_threshold: float = 0.1,
) -> list[str]:
    """Return the replicas for a request, best first; empty if all are equally good.

    Args:
        text: the text of the request; None if it has none.
        loads: the number of requests in progress at each replica.
        prefixes: the texts that the replicas have processed.
        imbalanced_threshold: if the loads differ by at least this, only the load counts.
        match_rate_threshold: the least share of the text for which a replica is preferred.
    """
    if not loads or text is None:
        return []
    if max(loads.values()) - min(loads.values()) > imbalanced_threshold:
        return []
    share, best = prefixes.longest(text, loads)
    if best and share >= match_rate_threshold:
        return sorted(best, key=lambda replica: (loads[replica], replica))
    # No replica has processed enough of it, so send it to the least busy one.
    return [min(loads, key=lambda replica: (loads[replica], replica))]


def by_session(session: str | None, replicas: Sequence[str]) -> list[str]:
    """Return the replicas in the order in which a session should try them; empty without a session.

    The order follows the hashes of session and replica (rendezvous hashing). A session stays at its replica while
    that replica exists, and only the sessions of a removed replica move.
    """
    if session is None:
        return []

    def weight(replica: str) -> bytes:
        return hashlib.blake2b(f"{session}\0{replica}".encode(), digest_size=8).digest()

    return sorted(replicas, key=weight, reverse=True)


def session_of(headers: Mapping[str, str], user: str | None, name: str) -> str:
    """Return the session of a request: the header `name` (- and _ are equal), else its `user`, else ""."""
    wanted = name.lower().replace("-", "_")
    for header, value in headers.items():
        if header.lower().replace("-", "_") == wanted:
            return value
    return user or ""


def text_of(arguments: Sequence[Any]) -> str | None:
    """Return the prompt, messages or input of an OpenAI request as text; None if no argument has one."""
    for each in arguments:
        for field in ("messages", "prompt", "input"):
            found = each.get(field) if isinstance(each, Mapping) else getattr(each, field, None)
            if found:
                return _flat(found)
    return None


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_flat(value[name]) for name in ("role", "content", "text") if value.get(name))
    if isinstance(value, Sequence):
        if value and isinstance(value[0], int):
            return " ".join(map(str, value))
        return "\n".join(map(_flat, value))
    if getattr(value, "type", "text") != "text":  # an image or other media of a message, which may be large
        return hashlib.blake2b(str(value).encode("utf-8", "surrogatepass")).hexdigest()
    fields = {name: getattr(value, name, None) for name in ("role", "content", "text")}
    return _flat(fields) if any(fields.values()) else str(value)
