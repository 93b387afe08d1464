"""Answers that wait for places: requests take turns, so that one of very many answers holds up no other for long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from skate.llm.embedded.answer import Answer


class Turns:
    """The answers of each request in their order; of the requests the one whose last turn is longest ago is next."""

    def __init__(self) -> None:
        self._of: dict[str, deque[Answer]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Answer]:
        for line in self._of.values():
            yield from line

    def extend(self, answers: Iterable[Answer]) -> None:
        """These wait from now on."""
        for each in answers:
            # Prompts of one request differ in what stands behind the last dash.
            self._of.setdefault(each.request_id.rpartition("-")[0], deque()).append(each)
            self._size += 1

    def popleft(self) -> Answer:
        """The next one, which waits no more. Raises IndexError if none does."""
        if not self._of:
            raise IndexError("no answer waits")
        request = next(iter(self._of))
        line = self._of.pop(request)
        found = line.popleft()
        if line:
            self._of[request] = line
        self._size -= 1
        return found

    def remove(self, answer: Answer) -> None:
        """This one waits no more. Raises KeyError if it did not."""
        request = answer.request_id.rpartition("-")[0]
        line = self._of[request]
        line.remove(answer)
        if not line:
            del self._of[request]
        self._size -= 1

    def clear(self) -> None:
        """None waits any more."""
        self._of.clear()
        self._size = 0
