"""The announcements of the libraries in this process: facts about a run, and a function that reads its current figures.

Nothing is sent. A survey asks for the announcements, and only then the functions are called.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from skate.protocol.fields import Where
from skate.wire.limits import LimitReached, start_thread

if TYPE_CHECKING:
    from skate.client.process import Process

#: The kind of a survey that asks for announcements.
ANNOUNCEMENTS = "announcements"
#: How many are kept of each library: of those in progress, and of those that have ended. The latest ones.
RUNNING_MAX = 256
ENDED_MAX = 64
#: The most characters of one announcement, and of all in an answer.
TEXT_MAX = 256 << 10
TEXTS_MAX = 4 << 20
#: How long an answer waits for another one that reads at the same time.
TURN_SECONDS = 0.5

Figures = Mapping[str, object]


class Announcement:
    """One announcement; `end` tells that what it is about has ended."""

    def __init__(
        self, library: str, id: str, facts: Figures, read: Callable[[], Figures] | None, session: bytes
    ) -> None:
        self.library = library
        self.id = id
        self.facts = dict(facts)
        self.session = session
        self.began = time.time()
        self.ended = 0.0
        self._read = read
        self._last: Figures | None = None

    def end(self, **facts: object) -> None:
        """Add some last facts, keep the last figures, and forget the function that reads them."""
        if self.ended:
            return
        self.facts.update(facts)
        figures = self.figures()
        self._last, self._read = figures, None
        self.ended = time.time()
        _store.end(self)

    def figures(self) -> Figures | None:
        """Return the current figures; the last ones after the end."""
        read = self._read
        if read is None:
            return self._last
        try:
            return read()
        except Exception as error:  # the function may be anybody's, and what it reads changes meanwhile
            return {"problem": f"{type(error).__name__}: {error}"}

    def text(self, read: bool = True) -> str:
        """Return it as JSON, without figures if they are not to be read now."""
        import json  # few processes are asked

        shown: dict[str, object] = {
            "library": self.library,
            "id": self.id,
            "began": self.began,
            "ended": self.ended,
            "facts": self.facts,
        }
        figures = self.figures() if read or self.ended else {"problem": "the last reading has not ended"}
        text = json.dumps({**shown, "figures": figures}, default=str)
        if len(text) <= TEXT_MAX:
            return text
        problem = f"the figures are longer than {TEXT_MAX} characters"
        return json.dumps({**shown, "facts": {}, "figures": {"problem": problem}}, default=str)


class AnnouncementStore:
    """The announcements of this process, by library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, deque[Announcement]] = {}
        self._ended: dict[str, deque[Announcement]] = {}

    def add(self, new: Announcement) -> None:
        """Keep an announcement."""
        with self._lock:
            self._running.setdefault(new.library, deque(maxlen=RUNNING_MAX)).append(new)

    def end(self, ended: Announcement) -> None:
        """Move an announcement to those that have ended."""
        with self._lock:
            running = self._running.get(ended.library)
            if running is not None and ended in running:
                running.remove(ended)
                self._ended.setdefault(ended.library, deque(maxlen=ENDED_MAX)).append(ended)

    def of(self, library: str, session: bytes, without: Collection[str] = ()) -> list[Announcement]:
        """Return the announcements of a library in a session, the latest first. One from before any session is in all.

        An empty text stands for all libraries but those of `without`.
        """
        with self._lock:
            if library:
                found = [*self._ended.get(library, ()), *self._running.get(library, ())]
            else:
                kept = (each for all_of in (self._ended, self._running) for each in all_of.items())
                found = [each for name, announced in kept if name not in without for each in announced]
                found.sort(key=lambda each: each.began)
        return [each for each in reversed(found) if each.session in (session, b"")]


_store = AnnouncementStore()
#: Held while the functions are called.
_turn = threading.Lock()


def add(new: Announcement) -> None:
    """Keep an announcement of this process."""
    _store.add(new)


def answer(process: Process, where: Where, done: Callable[[tuple[str, ...]], None]) -> None:
    """Call `done` with the announcements that are asked for as JSON; from a thread if there are any.

    The functions are those of libraries and of users, so the thread that serves the session does not call them.
    """
    library, without = (str(where.get(name, "")) for name in ("library", "without"))
    found = _store.of(library, process.node_id, without.split(","))
    if not found:
        done(())
        return

    def run() -> None:
        has_turn = _turn.acquire(timeout=TURN_SECONDS)
        try:
            texts, left = [], TEXTS_MAX
            for each in found:
                text = each.text(has_turn)
                left -= len(text)
                if left < 0:
                    break
                texts.append(text)
        finally:
            if has_turn:
                _turn.release()
        done(tuple(texts))

    try:
        start_thread(run, "skate-announcements")
    except LimitReached:
        done(tuple(each.text(read=False) for each in found[:ENDED_MAX]))
