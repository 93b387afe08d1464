"""The log of a head's registry: what follows from a record happens only when the record is stored.

A change that others may come to know waits for its record (output commit): the registry decides, appends the records, and makes
the change when the shell says that they are stored. So nobody ever sees what another head would not know. A node without a
store makes each change at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from skate.core.outbox import Outbox
from skate.protocol.effects import AppendRecords
from skate.protocol.registry_records import RegistryRecord

Action = Callable[[], None]
#: Handles records that cannot be stored; the text says why.
Refusal = Callable[[str], None]
Records = Sequence[RegistryRecord]


class RecordLog:
    """Appends records, and continues when they are stored."""

    def __init__(self, out: Outbox, is_stored: bool) -> None:
        self.out = out
        #: False on a node without a store.
        self.is_stored = is_stored
        self._number = 0
        #: By number: records that are tried again if they are refused, and what follows either answer.
        self._waiting: dict[int, tuple[Records, Action | None, Refusal | None]] = {}
        #: Records of what has happened already, which could not be stored: they go first with the next ones.
        self._late: list[RegistryRecord] = []
        self._turns: deque[tuple[Callable[[], Records], Action, Refusal]] = deque()
        self._is_busy = False

    def note(self, *records: RegistryRecord) -> None:
        """Append records on which nothing depends."""
        if self.is_stored and records:
            self._append(records, None, None)

    def commit(self, records: Records, then: Action, refused: Refusal) -> None:
        """Append records, and call `then` once they are stored, or `refused` if they cannot be."""
        if self.is_stored and records:
            self._append(records, then, refused)
        else:
            then()

    def decide(self, records: Callable[[], Records], then: Action, refused: Refusal) -> None:
        """Do the same with records that depend on earlier decisions: `records` is called when those have been made."""
        self._turns.append((records, then, refused))
        self._advance()

    def _append(self, records: Records, then: Action | None, refused: Refusal | None) -> None:
        self._number += 1
        late, self._late = self._late, []
        again = late if then is not None else (*late, *records)
        self._waiting[self._number] = (again, then, refused)
        self.out.shell(AppendRecords(self._number, (*late, *records)))

    def _advance(self) -> None:
        while self._turns and not self._is_busy:
            records, then, refused = self._turns.popleft()
            self._is_busy = True
            self.commit(records(), self._ending_turn(then), self._refusing_turn(refused))

    def _ending_turn(self, then: Action) -> Action:
        def end() -> None:
            then()
            self._is_busy = False
            self._advance()

        return end

    def _refusing_turn(self, refused: Refusal) -> Refusal:
        def end(problem: str) -> None:
            refused(problem)
            self._is_busy = False
            self._advance()

        return end

    # -- answers of the shell

    def stored(self, number: int) -> None:
        """RECORDS_STORED: continue with what waited for records up to this number."""
        for each in [each for each in self._waiting if each <= number]:
            _, then, _ = self._waiting.pop(each)
            if then is not None:
                then()

    def refused(self, number: int, problem: str) -> None:
        """RECORDS_REFUSED: give up what waited for the records of this number."""
        again, _, refused = self._waiting.pop(number)
        self._late += again
        if refused is not None:
            refused(f"the registry of the cluster cannot be written: {problem}")

    def __repr__(self) -> str:
        return f"<RecordLog {len(self._waiting)} to be stored, {len(self._turns)} decisions wait>"
