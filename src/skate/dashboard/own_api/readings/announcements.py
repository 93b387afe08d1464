"""The announcements of a library, asked for only when a page asks, and at most twice a second however many do."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from skate.util.announcements import Announced, collect

#: An answer is used again for this long.
FRESH_SECONDS = 0.5
#: How many of those are kept whose process has ended.
PAST_MAX = 100


class Announcements:
    """The announcements of one library, also of processes that have ended since they were seen.

    Args:
        library: whose; an empty text for all.
        without: with an empty `library`, those to leave out.
    """

    def __init__(self, library: str, without: Collection[str] = ()) -> None:
        self._library = library
        self._without = without
        self._lock = threading.Lock()
        self._asked = 0.0
        self._known: dict[str, Announced] = {}

    def rows(self) -> list[Announced]:
        """Return them, the latest first.

        Raises:
            RuntimeError: the session has ended.
        """
        with self._lock:
            if time.monotonic() - self._asked >= FRESH_SECONDS:
                found = {each.key: each for each in collect(self._library, without=self._without)}
                for key, each in self._known.items():
                    if key not in found or (each.figures and not found[key].is_reachable):
                        found[key] = each._replace(is_reachable=False)
                self._known = dict(sorted(found.items(), key=lambda item: item[1].began, reverse=True))
                past = [key for key, each in self._known.items() if not each.is_reachable]
                for key in past[PAST_MAX:]:
                    del self._known[key]
                self._asked = time.monotonic()
            return list(self._known.values())

    def find(self, key: str) -> Announced | None:
        """Return one by its key, or None."""
        return next((each for each in self.rows() if each.key == key), None)


def about(each: Announced) -> dict[str, object]:
    """Return what all announcements have in common, for the page."""
    return {
        "key": each.key,
        "name": each.id,
        "pid": each.pid,
        "node_id": each.node_id,
        "ip": each.ip,
        "began": each.began,
        "ended": each.ended,
        "is_reachable": each.is_reachable,
        "problem": each.figures.get("problem", ""),
    }
