"""Surveys: questions that all nodes and processes answer.

A node knows the objects that have escaped; only a process itself knows refs that never left it. So a survey asks each local
process and each other node. It answers when all have answered, or with a partial result when the client stops waiting.

A node with many tasks or objects does not answer in one step, because nothing else happens meanwhile: it adds some rows, and
the next ones a moment later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from skate.core.state.inventory import HEAD_KINDS, Inventory, Row
from skate.protocol import messages as m
from skate.protocol.effects import ReadOutput
from skate.protocol.fields import Where

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables

#: A survey after which every node has the current metrics of its processes, as rows of kind "metrics".
REPORTS = "reports"
#: Asks processes to send the spans that they have recorded to where they go.
EXPORTS = "exports"
#: Parts of a survey that only the processes themselves know.
OF_PROCESSES = frozenset(
    {"objects", "jobs", "workers", "spans", REPORTS, EXPORTS, "profile", "traceback", "announcements"}
)
#: What a profile shall be of.
OF_PROFILES = {"pids", "node_id", "seconds", "rate", "mode"}
#: Columns on which all nodes agree. A task has one state on the node that sent it, and another one where it runs.
SAME_EVERYWHERE = frozenset(
    {
        "task",
        "name",
        "function",
        "actor",
        "object",
        "pid",
        "stream",
        "printer",
        "since",
        "file",
        "at",
        "turn",
        "library",
        "without",
        "cursor",
        "unread",
    }
    | OF_PROFILES
)
#: The last output of workers, which the shell keeps.
OUTPUT = "output"
#: The work of one step, about 0.7 ms: an entry that is left out counts as 1, a row as more. The seconds before the next step.
SLICE = 2_000
ROW_WORK = 4
PAUSE_SECONDS = 0.001
#: The node itself and its shell, among those that a survey waits for.
SELF = 0
OF_SHELL = m.SHELL


class Survey:
    """One survey in progress: the asker, the missing answers, and the rows so far."""

    __slots__ = ("cid", "number", "waiting", "parts", "rows")

    def __init__(self, cid: int, number: int | None, rows: Iterator[tuple[str, Row | None]]) -> None:
        self.cid = cid
        #: The request to reply to when all have answered; None if answers are passed on to another node.
        self.number = number
        self.waiting: set[tuple[bytes, int]] = set()
        self.parts: list[Row] = []
        #: The rows of this node that are still to be added.
        self.rows = rows


class Surveys:
    """The surveys that this node has begun, or takes part in."""

    def __init__(
        self, tables: NodeTables, inventory: Inventory, later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._clients = tables.clients
        self._node_id = tables.members.here.node_id
        self._members = tables.members
        self._peers = tables.members.alive
        self._workers = tables.scheduler.workers
        self._emit = tables.out.emit
        self._shell = tables.out.shell
        self._inventory = inventory
        self._later = later
        #: The work of one step.
        self.slice: float = SLICE
        #: By the asker's node and process and its number for the survey.
        self.in_progress: dict[bytes, Survey] = {}

    # -- of clients

    def begin(
        self,
        cid: int,
        number: int,
        token: int,
        kinds: tuple[str, ...],
        where: Where,
        limit: int,
        detail: bool,
    ) -> None:
        """Start a survey for a client; the reply is sent when all have answered.

        `limit` is the most rows of each kind, 0 for all. Nodes report the same task, so among several only the client can apply
        it, and conditions on states.
        """
        key = self._key(cid, token)
        if self._peers:
            limit = 0
            where = {column: wanted for column, wanted in where.items() if column in SAME_EVERYWHERE}
        message = m.Survey(m.SURVEY, key, kinds, where, limit, detail)
        survey = self._start(cid, number, message)
        for peer in self._peers.values():
            survey.waiting.add((peer.node_id, peer.cid))
            self._emit(peer.cid, message)
        self._end_if_complete(key)

    def give_up(self, cid: int, token: int) -> tuple[list[Row], list[Row]]:
        """End a survey whose client stops waiting; return the rows so far and the missing processes."""
        survey = self.in_progress.pop(self._key(cid, token), None)
        if survey is None:
            return [], []
        return survey.parts, [self._silent(*who) for who in sorted(survey.waiting)]

    def _key(self, cid: int, token: int) -> bytes:
        return self._node_id[:8] + cid.to_bytes(4, "little") + token.to_bytes(8, "little")

    # -- of other nodes

    def survey(self, cid: int, message: m.Survey) -> None:
        """SURVEY: run a survey for a peer; pass on each answer as it comes, then the end."""
        _, key, *_ = message
        self._start(cid, None, message)
        self._end_if_complete(key)

    def survey_ended(self, cid: int, message: m.SurveyEnd) -> None:
        """SURVEY_END: all processes of a peer have answered."""
        _, key = message
        survey = self.in_progress.get(key)
        peer = self._peers.get(cid)
        if survey is not None and peer is not None:
            survey.waiting.discard((peer.node_id, cid))
            self._end_if_complete(key)

    # -- answers

    def surveyed(self, cid: int, message: m.Surveyed) -> None:
        """SURVEYED: a process has answered, or a peer passes on an answer of one of its processes."""
        _, key, part = message
        survey = self.in_progress.get(key)
        if survey is None:
            return
        if cid not in self._peers:
            part.update(node=self._node_id, ip=self._members.here.address, cid=cid)
            survey.waiting.discard((self._node_id, cid))
        self._take(survey, key, part)
        self._end_if_complete(key)

    def output_read(self, key: bytes, rows: tuple[Row, ...]) -> None:
        """Add the output of this node's workers to a survey."""
        survey = self.in_progress.get(key)
        if survey is None:
            return
        survey.waiting.discard((self._node_id, OF_SHELL))
        self._take(survey, key, {**self._inventory.node(), OUTPUT: list(rows)})
        self._end_if_complete(key)

    def forget(self, cid: int) -> None:
        """Stop waiting for the answer of a process or peer that has ended."""
        for key, survey in list(self.in_progress.items()):
            if survey.cid == cid:
                del self.in_progress[key]
                continue
            survey.waiting = {who for who in survey.waiting if who[1] != cid}
            self._end_if_complete(key)

    def _start(self, cid: int, number: int | None, message: m.Survey) -> Survey:
        """Add what this node knows, and ask its processes."""
        _, key, kinds, where, limit, detail = message
        rows = self._rows(kinds, where, limit, detail)
        survey = self.in_progress[key] = Survey(cid, number, rows)
        self._add_rows(survey, key)
        if OUTPUT in kinds:
            survey.waiting.add((self._node_id, OF_SHELL))
            self._shell(ReadOutput(key, self._of_this_node(where)))
        if OF_PROCESSES.isdisjoint(kinds):
            return survey
        for process in list(self._clients):
            worker = self._workers.get(process)
            if process not in self._peers and (worker is None or worker.pid):
                survey.waiting.add((self._node_id, process))
                self._emit(process, message)
        return survey

    def _of_this_node(self, where: Where) -> Where:
        """Return the conditions with the streams of this node only: processes of two nodes may have the same pid."""
        cursor = where.get("cursor")
        if not isinstance(cursor, str) or ":" not in cursor:
            return where
        parts = [part.rpartition(":") for part in cursor.split(",")]
        here = self._node_id.hex()
        return {**where, "cursor": ",".join(stream for node, _, stream in parts if here.startswith(node))}

    def _rows(
        self, kinds: tuple[str, ...], where: Where, limit: int, detail: bool
    ) -> Iterator[tuple[str, Row | None]]:
        """Yield the rows of some kinds, at most `limit` of each, each with its kind."""
        for kind in kinds:
            of_head = kind in HEAD_KINDS and self._members.head is not self._members.here
            if of_head or kind not in self._inventory.kinds:  # only the processes know the jobs
                continue
            left = limit
            for row in self._inventory.scan(kind, where, detail):
                yield kind, row
                if row is not None and limit:
                    left -= 1
                    if not left:
                        break

    def _add_rows(self, survey: Survey, key: bytes) -> None:
        """Add the next rows of this node; the others follow later."""
        left = self.slice
        part = self._inventory.node()
        for kind, row in survey.rows:
            if row is None:
                left -= 1
            else:
                part.setdefault(kind, []).append(row)
                left -= ROW_WORK
            if left <= 0:
                survey.waiting.add((self._node_id, SELF))
                self._later(PAUSE_SECONDS, lambda: self._continue(survey, key))
                break
        else:
            survey.waiting.discard((self._node_id, SELF))
        self._take(survey, key, part)

    def _continue(self, survey: Survey, key: bytes) -> None:
        if self.in_progress.get(key) is survey:
            self._add_rows(survey, key)
            self._end_if_complete(key)

    def _take(self, survey: Survey, key: bytes, part: Row) -> None:
        if survey.number is not None:
            survey.parts.append(part)
        else:
            self._emit(survey.cid, m.Surveyed(m.SURVEYED, key, part))

    def _end_if_complete(self, key: bytes) -> None:
        survey = self.in_progress.get(key)
        if survey is None or survey.waiting:
            return
        del self.in_progress[key]
        if survey.number is not None:
            self._emit(survey.cid, m.Reply(m.REPLY, survey.number, True, (survey.parts, [])))
        else:
            self._emit(survey.cid, m.SurveyEnd(m.SURVEY_END, key))

    def _silent(self, node_id: bytes, cid: int) -> Row:
        worker = self._workers.get(cid)
        if worker is not None:
            return self._inventory.worker(worker)
        return {"node": node_id, "cid": cid, "pid": 0, "actor": b"", "name": ""}

    def __repr__(self) -> str:
        return f"<Surveys {len(self.in_progress)} in progress>"
