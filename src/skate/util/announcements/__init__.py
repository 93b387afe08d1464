"""Announcements of what a program runs, for those that look at its session: the dashboard, or a program of your own.

A library or a program says once what runs, and where its figures are. Nothing is sent; the figures are read when they are
asked for.

    run = announce("imports", "orders", {"source": "orders.csv"}, read=lambda: {"rows": importer.rows})
    ...
    run.end()
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from skate.client.session import keyvalue, session
from skate.client.state import announcement_store, survey
from skate.client.state.announcement_store import Announcement

__all__ = ["Announced", "Announcement", "announce", "collect"]

#: The facts that the session remembers are values of this namespace.
NAMESPACE = "skate_announcements"
#: How many the session remembers of each library.
REMEMBERED_MAX = 200
_KEY = re.compile(r"(?P<library>.+?)/(?P<began>\d{13}\.\d{6})/(?P<pid>\d+)/(?P<id>.*)", re.DOTALL)
_values: dict[bytes, bytes] = {}
#: How long a run that is only remembered may take to be found, in seconds.
ANSWER_SECONDS = 1.0


class Announced(NamedTuple):
    """An announcement as others see it.

    Attributes:
        library: who announced it.
        id: its name, which need not be unique.
        facts: what is known since the beginning.
        began: when it began, in seconds since 1970.
        ended: when it ended; 0 while it continues.
        figures: the current figures, the last ones after the end; empty if there are none, or the process has ended.
        pid: the process.
        node_id: its node, as hexadecimal digits.
        ip: the address of that node.
        is_reachable: False if its process does not answer, or has ended.
    """

    library: str
    id: str
    facts: Mapping[str, object]
    began: float
    ended: float
    figures: Mapping[str, object]
    pid: int
    node_id: str
    ip: str
    is_reachable: bool

    @property
    def key(self) -> str:
        """A name that no other announcement has."""
        return f"{self.id}@{self.began:.6f}@{self.pid}"


def announce(
    library: str,
    id: str,
    facts: Mapping[str, object] | None = None,
    read: Callable[[], Mapping[str, object]] | None = None,
    remember: bool = False,
) -> Announcement:
    """Say that something runs in this process; call `end` of the result when it has ended.

    Args:
        library: who says so; readers ask by this name.
        id: its name for people.
        facts: what is known now. Like the figures, plain values that JSON can have.
        read: returns the current figures. It is called in a thread of its own, only when it is asked for, and must not wait.
        remember: True if the session shall remember the facts after this process has ended, such as the path of a journal.
    """
    current = session.current_or_none()
    owner = b"" if current is None else current.node_id
    made = Announcement(library, id, facts or {}, read, owner)
    announcement_store.add(made)
    if remember and current is not None:
        _remember(made)
    return made


def _remember(made: Announcement) -> None:
    kept = keyvalue.keys(f"{made.library}/", NAMESPACE)
    for key in kept[: max(0, len(kept) - REMEMBERED_MAX + 1)]:
        keyvalue.delete(key, namespace=NAMESPACE)
    pid = os.getpid()
    value = json.dumps({"id": made.id, "facts": made.facts, "began": made.began, "pid": pid}, default=str)
    keyvalue.put(f"{made.library}/{made.began:020.6f}/{pid}/{made.id}", value, namespace=NAMESPACE)


def collect(library: str, timeout: float = ANSWER_SECONDS, without: Collection[str] = ()) -> list[Announced]:
    """Return the announcements of a library in all processes of the session, the latest first.

    Args:
        library: who announced them; an empty text for all.
        timeout: how many seconds to wait for processes that do not answer.
        without: with an empty `library`, those to leave out.

    Raises:
        RuntimeError: no session is running.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so nothing is announced; call init() first")
    where: dict[str, bytes | str] = {"library": library, "without": ",".join(without)}
    parts, _ = survey.ask(process, (announcement_store.ANNOUNCEMENTS,), timeout, where, 0, False)
    found = {}
    for part in parts:
        for text in part.get(announcement_store.ANNOUNCEMENTS, ()):
            each = _announced(json.loads(text), part["pid"], part["node"].hex(), part["ip"], True)
            found[each.key] = each
    for key in keyvalue.keys(f"{library}/" if library else "", NAMESPACE):
        match = _KEY.fullmatch(key.decode())
        if match is None or match["library"] in without or (library and match["library"] != library):
            continue
        if f"{match['id']}@{float(match['began']):.6f}@{match['pid']}" not in found:
            value = _remembered(key)
            if value:
                row = {**json.loads(value), "library": match["library"]}
                each = _announced(row, int(match["pid"]), "", "", False)
                found[each.key] = each
    return sorted(found.values(), key=lambda each: each.began, reverse=True)


def _remembered(key: bytes) -> bytes:
    """Return the value of a key; values never change, so each is asked for once."""
    if key not in _values:
        if len(_values) >= 4 * REMEMBERED_MAX:
            _values.clear()
        _values[key] = keyvalue.get(key, NAMESPACE) or b""
    return _values[key]


def _announced(row: dict[str, object], pid: int, node_id: str, ip: str, is_reachable: bool) -> Announced:
    facts, figures = row.get("facts"), row.get("figures")
    return Announced(
        str(row.get("library", "")),
        str(row.get("id", "")),
        facts if isinstance(facts, dict) else {},
        _number(row.get("began")),
        _number(row.get("ended")),
        figures if isinstance(figures, dict) else {},
        pid,
        node_id,
        ip,
        is_reachable,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
