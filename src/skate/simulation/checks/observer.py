"""An observer that sees every process and checks invariants throughout a run.

The cores check themselves; the observer checks what users would notice. No attempt runs without permission, and none is accepted
twice. No task runs in two places unless one of them was lost. Calls begin in their caller's order. An actor's state is in one
process, and a name belongs to one actor. Resources and GPUs in use never exceed the node's total, except for CPUs that tasks took
back after a wait. No process reads a freed value.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from skate.core.cluster.lineage import NOT_RECORDED
from skate.core.object.lifetimes import FREED
from skate.protocol import messages as m
from skate.protocol.states import CREATION, DEAD
from skate.simulation.programs.spec import CPU, Spec

if TYPE_CHECKING:
    from skate.core.task.task import Task
    from skate.protocol.fields import ErrorValue
    from skate.simulation.nodes.cluster import Cluster
    from skate.simulation.processes.frame import Ref
    from skate.simulation.processes.process import Process
    from skate.simulation.processes.worker import Running, Worker

LOST = ("ObjectLostError", "OwnerDiedError", "ObjectReconstructionFailedError", FREED)


class Observer:
    """Records the actions of all processes of a run."""

    def __init__(self) -> None:
        self.specs: dict[bytes, Spec] = {}
        #: Outcomes of the drivers' calls, by task id: "" while one runs, "ok", or the class name of an error.
        self.outcomes: dict[bytes, str] = {}
        self.attempts: dict[bytes, int] = {}
        self.lives: dict[bytes, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.faultless = False  # nothing breaks, and no process kills or cancels
        self.deepest_queue = 0  # tasks at one node
        #: The place where each running task was last begun.
        self._places: dict[bytes, Worker] = {}
        self._stays: Counter[bytes] = Counter()  # attempts begun on the node of the last attempt
        self._hosts: dict[bytes, Worker] = {}  # of actors
        #: Attempts that cost no retry, by task: a node may not have reported them before it was lost, or the result had gone.
        self._unreported: Counter[bytes] = Counter()
        #: Tasks that must not run again: they ended with an error that is not retried, or were cancelled.
        self._final: set[bytes] = set()
        self._cancelled: set[bytes] = set()
        #: Actors that were told to end for good, with their number of restarts at that time.
        self._over: dict[bytes, int] = {}
        #: Actors that a process has killed for good, and the node of that.
        self.killed: dict[bytes, Cluster] = {}
        self._forwarded: Counter[tuple[int, int, bytes]] = Counter()
        self._accepted: set[tuple[bytes, bytes, int]] = set()
        #: Where each actor was constructed for each restart, on nodes that are not lost.
        self._constructed: dict[tuple[bytes, int, int], Cluster] = {}
        #: Of each call: actor, caller, its number in the caller's order.
        self._callers: dict[bytes, tuple[bytes, int, int]] = {}
        self._order: dict[tuple[bytes, int], int] = {}
        #: The same for calls that no answer was accepted for, by actor, caller and process of the actor: these keep their order
        #: also when they are retried together.
        self._order_there: dict[tuple[bytes, int, int], int] = {}
        self._answered: set[bytes] = set()
        self._lent: dict[int, dict[str, Any]] = {}
        #: Objects of which a process that was being killed had sent a HOLD, which came when its tasks had been given up.
        self._held_late: set[bytes] = set()

    # -- calls

    def submitted(self, process: Process, task_id: bytes, spec: Spec) -> None:
        """Record a submission."""
        self.counts["tasks"] += 1
        self.specs[task_id] = spec
        if not process.is_worker and (spec.returns or spec.streaming):
            self.outcomes[task_id] = ""

    def created(self, actor_id: bytes, spec: Spec, life: dict[str, Any]) -> None:
        """Record the creation of an actor."""
        self.counts["actors"] += 1
        self.specs[actor_id] = spec
        self.lives[actor_id] = life

    def called(self, process: Process, task_id: bytes, actor_id: bytes) -> None:
        """Record a call of an actor."""
        self._callers[task_id] = (actor_id, process.cid, len(self._callers))

    def saw(self, oid: bytes, kind: int, payload: Any) -> None:
        """Check the result of a call that a process receives."""
        task_id = oid[:24]
        if kind == m.ERROR:
            self._deserved(task_id, *payload)
            self._not_freed(payload)
        if task_id in self.outcomes:
            while kind == m.ERROR and "init_error" in payload[1]:
                payload = payload[1]["init_error"]
            self.outcomes[task_id] = payload[0] if kind == m.ERROR else "ok"

    def _deserved(self, task_id: bytes, name: str, fields: dict[str, Any]) -> None:
        """Assert that an error ends a call only when all its attempts are used up."""
        counts = self.counts
        if (
            NOT_RECORDED in fields.get("reason_message", "")
            and counts["nodes lost"]
            and not counts["fault unreadable"]
        ):
            maker = bytes.fromhex(fields["message"])[:24]  # of what was lost, perhaps an argument of the call
            allowed, begun = self._allowed(maker), self.attempts.get(maker, 0)
            assert 0 <= allowed < begun, (
                f"{self.specs[maker]} could run again, but what it made is not made again"
            )
        if fields.get("through") or task_id not in self.specs or self.counts["nodes lost"]:
            return
        spec, count = self.specs[task_id], self.attempts.get(task_id, 0)
        allowed = self._allowed(task_id)
        if name == "RayTaskError":
            if not fields["retriable"] or task_id in self._cancelled or spec.name != fields["function"]:
                return
        elif name not in ("WorkerCrashedError", "ActorUnavailableError"):
            return
        elif fields.get("begun") is False:  # it came while its actor started again
            assert not allowed and not count, (
                f"{spec} is refused after {count} attempts, with {allowed} retries"
            )
            return
        assert 0 <= allowed < count, f"{spec} ends with {name} after {count} attempts, with {allowed} retries"

    def _allowed(self, task_id: bytes) -> int:
        """Return how often a call may be retried."""
        if task_id in self._callers:
            allowed: int = self.lives[self._callers[task_id][0]]["max_task_retries"]
            return allowed
        return self.specs[task_id].retries

    def received(self, oid: bytes, kind: int, payload: Any) -> None:
        """Check a requested value that a process receives."""
        lost = kind == m.ERROR and payload[0] in LOST
        assert not (self.faultless and lost), f"{oid.hex()} is lost, though nothing broke: {payload}"
        if lost:
            self._not_freed(payload)

    def _not_freed(self, error: ErrorValue) -> None:
        """Assert that nothing is freed while it is referenced, except by the loss of a node."""
        if error[0] == FREED and not self.counts["nodes lost"]:
            oid = bytes.fromhex(error[1]["message"])
            assert oid in self._held_late, f"{oid.hex()} was freed while it was referenced"

    def result(self, ref: Any) -> str:
        """Return the state of a ref: "pending", "ok" or the name of an error class."""
        if ref._kind == m.ERROR:
            return str(ref._value[0])
        return "pending" if ref._kind in (m.PENDING, m.UNKNOWN) else "ok"

    def forget(self, process: Process) -> None:
        """Forget a process that has ended, with its requests."""
        for task_id in [task_id for task_id in self.outcomes if task_id[8:20] == process.tail[:12]]:
            del self.outcomes[task_id]

    # -- attempts

    def began(self, worker: Worker, running: Running, word: int) -> None:
        """Record that a worker begins an attempt; ignore it on a node that was given up."""
        if worker.cluster.fenced:
            return
        task_id, spec = running.task_id, running.spec
        assert not worker.has_left, f"{spec} begins on {worker}, which has left"
        count = self.attempts[task_id] = self.attempts.get(task_id, 0) + 1
        self.counts["attempts"] += 1
        self.counts["retries"] += count > 1
        if word == m.EXECUTE:
            allowed = spec.retries
        elif word == m.CONSTRUCT:
            allowed = self.lives[task_id]["max_restarts"]
            self._constructs(worker, running)
        else:
            allowed = self._calls(worker, running)
        assert allowed < 0 or count <= allowed + 1 + self._unreported[task_id], (
            f"{spec} begins {count} times, with {allowed} retries"
        )
        assert task_id not in self._final, (
            f"{spec} begins again, though it was cancelled or its error is not retried"
        )
        before = self._places.get(task_id)
        still_runs = before is not None and not before.cluster.fenced and before.runs(task_id, running)
        assert not still_runs, f"{spec} begins on {worker} while it runs on {before}"
        if before is None or before.cluster is not worker.cluster:
            self._stays[task_id] = 0
        self._stays[task_id] += 1
        self._places[task_id] = worker
        self._uses(worker)

    def _calls(self, worker: Worker, running: Running) -> int:
        actor_id, caller, number = self._callers[running.task_id]
        life = self.lives[actor_id]
        assert worker.actor_id == actor_id, f"{running.spec} of another actor begins on {worker}"
        if running.attempt == 0 and not life["concurrent"]:
            last = self._order.get((actor_id, caller), -1)
            assert number > last, f"{running.spec} begins after a later call of the same caller"
            self._order[(actor_id, caller)] = number
        if running.task_id not in self._answered and not life["concurrent"]:
            there = (actor_id, caller, worker.cid)
            last = self._order_there.get(there, -1)
            assert number > last, f"{running.spec} begins on {worker} after a later call of the same caller"
            self._order_there[there] = number
        allowed: int = life["max_task_retries"]
        return allowed

    def _constructs(self, worker: Worker, running: Running) -> None:
        actor_id, restart = running.task_id, running.attempt
        over = actor_id in self._over and restart > self._over[actor_id] and not self.counts["nodes lost"]
        assert not over, f"{running.spec} is restarted, though it was to end for good"
        before = self._hosts.get(actor_id)
        assert before is None or before.cluster.fenced or not before.alive, (
            f"{running.spec} is in {before} and in {worker}"
        )
        self._hosts[actor_id] = worker
        key = (actor_id, restart, self._unreported[actor_id])
        assert key not in self._constructed, f"{running.spec} is constructed twice for restart {restart}"
        self._constructed[key] = worker.cluster
        name = self.lives[actor_id].get("actor_name")
        for other_id, other in self._hosts.items() if name else ():
            if other_id == actor_id or self.lives[other_id].get("actor_name") != name:
                continue
            assert not self._lives(other_id, other), f"{other} and {worker} are both named {name}"

    @staticmethod
    def _lives(actor_id: bytes, worker: Worker) -> bool:
        """Return True if others can find an actor: it is neither leaving nor given up."""
        cluster = worker.cluster
        known = cluster.head.core.actors.actors.get(actor_id)
        given_up = known is None or known.state == DEAD or known.leaving
        return (
            worker.alive and not worker.tables.leaving and worker.cid not in cluster.doomed and not given_up
        )

    def sends(self, cluster: Cluster, worker: Worker, message: tuple[Any, ...]) -> None:
        """Record a message from a node to a worker to run a task or to exit."""
        known = cluster.core.scheduler.workers.get(worker.cid)
        if known is None:
            return
        actor = known.actor
        if message[0] in (m.EXECUTE, m.CONSTRUCT, m.INVOKE):
            assert not known.leaving, f"{worker} is on its way out and gets another task"
        elif message == (m.EXIT, "out of scope"):
            assert not actor.wanted and not actor.detached, f"{actor} is ended, but somebody can call it"
            assert not known.outstanding, f"{actor} is ended, but has not answered {known.outstanding}"
            assert not actor.queue and not actor.lanes, f"{actor} is ended, but there are calls for it"
            self.ends(cluster, actor.actor_id)
            self._over[actor.actor_id] = actor.restarts

    def ends(self, cluster: Cluster, actor_id: bytes) -> None:
        """Assert that no process holds an actor that ends."""
        for process in cluster.everybody():
            weak = process.actors.get(actor_id)
            hold = weak() if weak is not None else None
            held = hold is not None and hold.grants and not process.cluster.fenced
            assert not held, f"{self.specs[actor_id]} is ended, but {process} has a handle to it"

    def passes(self, source: int, to: int, message: tuple[Any, ...]) -> None:
        """Record a message from one node to another."""
        if message[0] == m.FORWARD:
            self._forwarded[source, to, message[2]] += 1
        elif message[0] == m.RETRIED:
            self._retried(*message[1:])
        elif message[0] in (m.FINISHED, m.ANSWERED):
            self._forwarded[to, source, message[1]] -= 1
            told = self._forwarded[to, source, message[1]] >= 0
            assert told, f"node {source} tells node {to} twice that {self.specs[message[1]]} has ended"

    def _retried(self, task_id: bytes, attempt: int, retries: int) -> None:
        """Check what a node reports about a task that it retries for another one."""
        allowed = self._allowed(task_id)
        if allowed < 0:
            assert retries == allowed, (
                f"{self.specs[task_id]} may always be retried, but {retries} retries are left"
            )
            return
        left = allowed - attempt + self._unreported[task_id]
        assert retries <= left, (
            f"{self.specs[task_id]} has {retries} retries left on attempt {attempt}, not {left}"
        )

    def takes(self, cluster: Cluster, process: Process, message: tuple[Any, ...]) -> None:
        """Record that a node is about to handle a message from a process."""
        word = message[0]
        if word == m.DONE:
            _, task_id, status, returns, _, retriable = message
            if status == m.OK and cluster.core.objects.vanished(task_id, returns):
                self._unreported[task_id] += 1  # it runs again, and no retry is counted
            self.accepts(cluster, process, task_id, status, retriable)  # type: ignore[arg-type]
        elif word == m.RETURNED:
            known = cluster.core.scheduler.workers.get(process.cid)
            self._final.update(i for i in message[1] if known and is_cancelled(known.outstanding.get(i)))
        elif word == m.EXITING:
            known = cluster.core.scheduler.workers.get(process.cid)
            if known is not None and known.actor is not None:
                self._over[known.actor.actor_id] = known.actor.restarts
        elif word == m.PUBLISH:
            _, oid, kind, payload, held, _ = message
            inside = payload[1] if kind == m.INLINE and isinstance(payload, tuple) else held
            assert sorted(inside) == sorted(held), f"{process} publishes {oid.hex()} without what is in it"
        elif word == m.HOLD:
            if not process.alive or process.cid in cluster.doomed:
                self._held_late.add(message[1])
        elif word == m.KILL and message[2]:
            self.killed[message[1]] = cluster
            actor = cluster.core.actors.actors.get(message[1])
            if actor is not None and actor.state != DEAD and cluster.core.cluster.registry.is_here(actor):
                self._over[actor.actor_id] = actor.restarts

    def accepts(
        self, cluster: Cluster, worker: Worker, task_id: bytes, status: int = m.OK, retriable: bool = True
    ) -> None:
        """Record that a node is about to accept a worker's answer for a task."""
        known = cluster.core.scheduler.workers.get(worker.cid)
        task = known.outstanding.get(task_id) if known is not None else None
        if task is None or task.kind == CREATION:  # what it constructs is counted where it begins
            return
        if task.cancelled:
            self._cancelled.add(task_id)
        if status != m.OK and (task.cancelled or not retriable) and not cluster.fenced:
            self._final.add(task_id)
        self._answered.add(task_id)
        key = (
            cluster.core.members.here.node_id,
            task_id,
            task.attempt,
        )  # of a head, another one may have the number
        assert key not in self._accepted, f"attempt {task.attempt} of {task} is accepted twice"
        self._accepted.add(key)

    def lost(self, cluster: Cluster) -> None:
        """Record the loss of a node, whose attempts other nodes may not know of."""
        self.counts["nodes lost"] += 1
        self._final.clear()
        # It may have restarted an actor, and not have reported it.
        self._constructed = {key: there for key, there in self._constructed.items() if there is not cluster}
        for task_id, worker in self._places.items():
            if worker.cluster is cluster:  # of the first there its node knows, and it costs a retry
                self._unreported[task_id] += self._stays[task_id] - 1

    # -- resources and memory

    def leased(self, worker: Worker, lease: dict[str, Any]) -> None:
        """Record the lease that a worker receives."""
        self._lent[worker.cid] = lease

    def _uses(self, worker: Worker) -> None:
        """Assert that the resources used by the running workers of a node, unless they wait, do not exceed its
        total.
        """
        cluster = worker.cluster
        workers = cluster.core.scheduler.workers
        used: Counter[str] = Counter()
        shares: Counter[Any] = Counter()
        for other in cluster.processes.values():
            lease = self._lent.get(other.cid)
            if lease is None or not other.works:  # type: ignore[attr-defined]
                continue
            known = workers.get(other.cid)
            if known is None or known.lease is None:  # given up, and about to be killed
                continue
            for name, units in lease["resources"].items():
                if name != "CPU" or other.waited_on is not known.lease:  # type: ignore[attr-defined]
                    used[name] += units
            for gpu in lease["gpus"]:
                shares[gpu] += min(CPU, lease["resources"]["GPU"])
        total = cluster.core.capacity.total
        for name, units in used.items():
            assert units <= total.get(name, 0), (
                f"{name}: {units} of {total.get(name, 0)} are in use on {cluster}"
            )
        for gpu, units in shares.items():
            assert units <= CPU, f"GPU {gpu} is lent {units / CPU:g} times"

    def reads(self, cluster: Cluster, ref: Ref, place: tuple[int, int]) -> None:
        """Check the read of a large value at the place that a process was told."""
        oid, _ = cluster.memory[place[0]]
        assert oid == ref._id, f"{ref} reads memory that holds another object by now"
        record = cluster.core.objects.get(oid)
        assert record is not None and record.payload == place, f"{ref} reads memory that is free by now"

    # -- the end

    def heard(self, alive: set[int], owner: Any) -> None:
        """Assert at the end that every living caller has received its answers."""
        unanswered = [self.specs[i] for i, word in self.outcomes.items() if not word and owner(i) in alive]
        assert not unanswered, f"callers of {unanswered} live and never got an answer"


def is_cancelled(task: Task | None) -> bool:
    """Return True if a task of a worker was cancelled."""
    return task is not None and task.cancelled
