"""The long waits of a node's processes, and the search for those that can never end.

A process sends WAITS for a `get` or `wait` without timeout that has lasted half a second, and WAIT_OVER when it resumes; it does
not report shorter waits. While any wait is old enough, the node checks from time to time whether it can still end (`deadlock`).
Before it reports a deadlock, it asks the processes concerned to confirm their waits. Their answers arrive after all their earlier
messages, including releases of handles that only the garbage collector could release.
"""

from __future__ import annotations

from skate.core.diagnosis.deadlock import DeadlockSearch
from skate.core.diagnosis.wait import Wait, Waits
from skate.core.diagnosis.wait_graph import WaitGraph
from skate.core.node_tables import NodeTables
from skate.protocol import messages as m

OLD_SECONDS = 1.0
LOOK_SECONDS_MAX = 30.0


class WaitRegistry:
    """The waits of each process, checked less and less often while nothing changes."""

    def __init__(self, tables: NodeTables) -> None:
        self.tables = tables
        self.clients = tables.clients
        self.clock = tables.clock
        self.emit = tables.out.emit
        self.by_client: Waits = {}
        self.look_at = 0.0
        self._pause = OLD_SECONDS
        self._round = 0
        #: Processes that have not answered in this round; a round is in progress if there are any.
        self._asked: set[int] = set()

    def waits(self, cid: int, message: m.Waits) -> None:
        """WAITS: a process reports a long wait, for the first time or again."""
        _, number, ids, needed, task_id, facts = message
        mine = self.by_client.setdefault(cid, {})
        wait = mine.get(number)
        if wait is None:
            wait = mine[number] = Wait(cid, number, self.clock.now)
            self._soon()
        wait.ids, wait.needed, wait.task_id, wait.facts = tuple(ids), needed, task_id, facts

    def over(self, cid: int, message: m.WaitOver) -> None:
        """WAIT_OVER: a wait has ended."""
        _, number = message
        mine = self.by_client.get(cid)
        if mine is not None:
            mine.pop(number, None)
            if not mine:
                del self.by_client[cid]
        self._soon()

    def _soon(self) -> None:
        self._pause = OLD_SECONDS
        self.look_at = self.clock.now + OLD_SECONDS

    def forget_client(self, cid: int) -> None:
        """Forget a process that has ended."""
        self.by_client.pop(cid, None)
        if cid in self._asked:
            self._asked.clear()
            self._soon()

    # -- checks

    def tick(self, now: float) -> float | None:
        """Check the waits if it is time; return the seconds until the next check, or None without waits."""
        if not self.by_client:
            return None
        if now < self.look_at:
            return self.look_at - now
        self._pause = min(2 * self._pause, LOOK_SECONDS_MAX)
        self.look_at = now + self._pause
        stuck, judgement = self.stuck()
        if stuck:
            self._ask(judgement.processes & self.by_client.keys())  # whose answers could change the verdict
        else:
            self._asked = set()
            self._refresh()
        return self._pause

    def old(self) -> list[Wait]:
        """Return the waits that have lasted long enough to be checked, oldest first."""
        limit = self.clock.now - OLD_SECONDS
        found = [
            w
            for mine in self.by_client.values()
            for w in mine.values()
            if w.since <= limit and not w.deadlock_reported
        ]
        return sorted(found, key=lambda wait: (wait.since, wait.cid, wait.number))

    def stuck(self, asleep: frozenset[int] = frozenset()) -> tuple[list[Wait], DeadlockSearch]:
        """Return the waits that can never end, assuming that drivers in `asleep` do nothing more."""
        judgement = DeadlockSearch(self.tables, self.by_client, asleep)
        old = self.old()
        judgement.judge(old)
        return [wait for wait in old if not judgement.is_live(judgement.key_of(wait))], judgement

    def _ask(self, cids: set[int]) -> None:
        self._round += 1
        self._asked = set(cids)
        for cid in sorted(cids):
            self.emit(cid, m.Confirm(m.CONFIRM, self._round))

    def _refresh(self) -> None:
        """Ask the processes whose reported waits are out of date."""
        for cid, mine in self.by_client.items():
            stale = any(
                wait.threads_free or not any(map(self.tables.is_pending, wait.ids)) for wait in mine.values()
            )
            if stale:
                self.emit(cid, m.Confirm(m.CONFIRM, 0))

    def still(self, cid: int, message: m.Still) -> None:
        """STILL: a process has confirmed its waits; after the last answer, end the deadlocked waits."""
        _, round_number = message
        if round_number != self._round or cid not in self._asked:
            return
        self._asked.discard(cid)
        if self._asked:
            return
        stuck, judgement = self.stuck()
        while stuck:
            graph = WaitGraph(self.tables, self.by_client, judgement)
            victim = graph.victim(stuck[0])
            if victim.deadlock_reported:  # the path has led past what is stuck; each turn ends another wait
                victim = stuck[0]
            self.emit(victim.cid, m.Deadlock(m.DEADLOCK, victim.number, graph.text(victim)))
            # It counts as resumed: whatever is stuck after this is another cycle.
            victim.deadlock_reported = True
            self._soon()
            stuck, judgement = self.stuck()

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for cid, mine in self.by_client.items():
            assert mine and cid in self.clients, f"{cid} is gone, but waits"
            for number, wait in mine.items():
                assert (wait.cid, wait.number) == (cid, number), wait

    def __repr__(self) -> str:
        return f"<Waits {sum(map(len, self.by_client.values()))} of {len(self.by_client)} processes>"
