"""The queue of prompts in progress. Clients take turns, so long prompts of one delay another by a bounded number of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from skate.llm.embedded.answer import Answer


class PrefillQueue:
    """Answers whose prompts are being computed, those of each client in order of arrival."""

    def __init__(self) -> None:
        #: The client whose last turn was longest ago comes first.
        self._clients: dict[str, deque[Answer]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def __contains__(self, answer: Answer) -> bool:
        return answer in self._clients.get(answer.client, ())

    def append(self, answer: Answer) -> None:
        """Add an answer."""
        self._clients.setdefault(answer.client, deque()).append(answer)

    def remove(self, answer: Answer) -> None:
        """Remove an answer. Raises KeyError or ValueError if it is not in the queue."""
        queue = self._clients[answer.client]
        queue.remove(answer)
        if not queue:
            del self._clients[answer.client]

    def clear(self) -> None:
        """Remove all answers."""
        self._clients.clear()

    def in_turn(self) -> Iterator[Answer]:
        """Iterate over the first prompt of each client, then the second of each, and so on."""
        queues = list(self._clients.values())
        for at in range(max(map(len, queues), default=0)):
            yield from (queue[at] for queue in queues if at < len(queue))

    def took_turn(self, answers: Iterable[Answer]) -> None:
        """Move the clients of the answers that a step has computed to the end."""
        for client in {answer.client: None for answer in answers}:
            if client in self._clients:
                self._clients[client] = self._clients.pop(client)
