"""One node of several: a `Cluster` of its own, with frames to and from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.cluster.node_capacity_index import LINEAR_MAX
from skate.core.node import NodeCore, admit_client
from skate.core.node_options import NodeOptions
from skate.fabric.arrivals import Arrival, Arrivals, Visit
from skate.protocol import shell_events as se
from skate.protocol.effects import AppendRecords, Pull, ServeReads, ShellEffect
from skate.protocol.states import ALIVE, DEAD
from skate.simulation.faults.fault_injector import WARY_STEPS
from skate.simulation.faults.rates import JUMPS
from skate.simulation.nodes.cluster import Cluster
from skate.simulation.processes.process import JOB, Process
from skate.simulation.processes.worker import Worker
from skate.simulation.programs.spec import CPU

if TYPE_CHECKING:
    from skate.simulation.nodes.world import World

HEAD = 0
IMPATIENT = 0.15  # how often a node is not made to wait for a value that is on its way
VALUE_BYTES = 1  # of a value, as far as its transfer matters here
CIDS = 100_000  # each node numbers its processes from a different start, so that the observer can tell them apart


class Node(Cluster):
    """One node of several."""

    def __init__(self, world: World, number: int, cpus: int, site: int) -> None:
        self.world = world
        faults = world.faults
        super().__init__(
            world.rng, cpus, faults=faults, observer=world.observer, check_every=world.check_every
        )
        self.number = number
        #: The site, which stays the same when a node comes back under a new id.
        self.cpus = cpus
        self.site = site
        self.slow = self.rng.random() < faults.slow
        self.node_id, first_cid, options = world.identity(number)
        total = {"CPU": cpus * CPU, f"at{site}": CPU}
        given: NodeOptions = {
            "arena_bytes": faults.arena_bytes,
            "disk_bytes": (faults.disk_bytes,) * faults.disks,
            "spill_outside": faults.outside,
            "node_id": self.node_id,
            "labels": {"zone": str(site % 2)},
            "first_cid": first_cid,
            # Half of the nodes behave as with very many peers.
            "linear_max": self.rng.choice((LINEAR_MAX, 1)),
        }
        given.update(options)
        self.core = NodeCore(total, **given)
        self.peers: dict[int, int] = {}  # numbers of nodes by the ids of this core
        self.reads: dict[int, int] = {}  # whom a value is awaited from, by where it goes
        self.coming: dict[int, Arrival] = {}  # the same, with those who wait for it here
        self.arrivals = Arrivals()
        self.late: list[tuple[bytes, int, int]] = []  # of values on disk: what to send where
        self.alive = True
        self.gates = world.gates

    @property
    def head(self) -> Cluster:
        """The node that decides about actors."""
        return self.world.nodes[HEAD]

    @property
    def now(self) -> float:
        """The clock of the cluster."""
        return self.world.now

    @now.setter
    def now(self, value: float) -> None:
        self.world.now = value

    def record(self, *what: Any) -> None:
        """Write an event into the common log."""
        self.world.record(self.number, *what)

    def timed_out(self, process: Process) -> bool:
        """Return True if a wait of this process times out."""
        return self.world.timeouts_allowed

    def driver(self) -> Process:
        """Add a driver."""
        return self._tag(super().driver())

    def _tag(self, process: Process) -> Process:
        process.tail = self.node_id[:8] + process.cid.to_bytes(4, "little") + JOB
        return process

    def carry_out(self, cid: int, message: Any) -> None:
        """Execute one effect of the core."""
        if cid in self.peers:
            self.observer.passes(self.number, self.peers[cid], message)
            self.world.post(self.number, self.peers[cid], ("message", message))
        else:
            super().carry_out(cid, message)

    def everybody(self) -> list[Process]:
        """Return the processes alive, of all nodes."""
        nodes = [node for node in self.world.nodes.values() if node.alive]
        return [process for node in nodes for process in super(Node, node).everybody()]

    def cut_off(self, cid: int) -> bool:
        """Kill the receiver of the next effect, or this whole node, before the effect; return False if the node is killed."""
        if self.number != HEAD and self.rng.random() < 0.3 * self.missed():
            self.fault("effect")
            self.world.kill(self)
            return False
        return super().cut_off(cid)

    def missed(self) -> float:
        """Return how much other nodes need this one, from 0 to 1: its tasks, actors and values for them."""
        core = self.core
        peers = self.peers
        tasks = any(task.origin is not None for task in core.tasks.values())
        actors = any(actor.hosted and actor.state == ALIVE for actor in core.actors.actors.values())
        values = any(not peers.keys().isdisjoint(record.holders) for record in core.objects.records.values())
        return 0.1 * tasks + 0.45 * actors + 0.45 * values

    def break_jump(self) -> None:
        """Advance the common clock by a large step."""
        self.fault("jump")
        self.now += self.rng.choice(JUMPS)
        self.record("jump")
        self.world.tick()

    def break_node(self) -> None:
        """Kill this node."""
        if self.number != HEAD and self.rng.random() < self.missed() + 0.02:
            self.fault("node")
            self.world.kill(self)

    def break_partition(self) -> None:
        """Cut this node off."""
        if self.world.is_member(self.number):
            self.fault("partition")
            self.world.cut(self)

    def shell(self, effect: ShellEffect) -> None:
        """Execute an effect of the core."""
        match effect:
            case Pull(cid, oid, offset, size, rank):
                self.record("Pull", cid, oid, rank)
                if cid in self.peers:
                    self.reads[offset] = self.peers[cid]
                    self.coming[offset] = self.arrivals.begin(oid, offset, size, rank)
                    self.world.post(self.number, self.peers[cid], ("read", oid, offset, size, rank))
                else:
                    self.tell(se.PullDone(se.PULL_DONE, offset, False))
            case ServeReads(served):
                late, self.late = self.late, [each for each in self.late if each[0] != served]
                for oid, source, offset in late:
                    if oid == served:
                        self.read(oid, source, offset)
            case AppendRecords():
                self.world.append(effect)
            case _:
                super().shell(effect)

    def spawn(self, cid: int) -> Worker:
        """Add a worker process."""
        worker = super().spawn(cid)
        self._tag(worker)
        return worker

    # -- frames

    def hear(self, source: int, frame: tuple[Any, ...]) -> None:
        """Handle a frame from another node."""
        word = frame[0]
        if word == "message":
            cid = next((cid for cid, number in self.peers.items() if number == source), None)
            if cid is not None:
                self.core.step(cid, frame[1], self.now)
        elif word == "read":
            _, oid, offset, size, rank = frame
            on_disk = self.core.snapshot.on_disk(oid)
            spilled = self.spilled(oid) if on_disk else None
            if spilled is not None:
                self.observer.counts["sent from disk"] += 1
                self.world.post(self.number, source, ("piece", oid, offset, spilled))
                return
            self.tell(se.RemoteRead(se.REMOTE_READ, oid))
            if on_disk:
                self.late.append((oid, source, offset))
            else:
                self.read(oid, source, offset, Visit(rank))
        elif word == "piece":
            _, oid, offset, entry = frame
            if self.reads.pop(offset, None) is not None:
                if entry is not None:
                    assert entry[0] == oid, f"node {source} sent another object than was asked for"
                    self.memory[offset] = entry
                self.pulled(offset, entry is not None)
        elif word == "joined":
            self.add_peer(frame[1], frame[2])
        elif word == "left":
            self.remove_peer(frame[1])
        self.apply()

    def spilled(self, oid: bytes) -> Any:
        """Return a value from the disk of this machine; None if its copy is elsewhere or cannot be read."""
        found = self.core.snapshot.place_on_disk(oid)
        if found is None or found[0] in self.disk.bad:
            return None
        return self.memory[found[0] + self.disk.boundary]

    def read(self, oid: bytes, source: int, offset: int, visit: Visit | None = None) -> None:
        """Send a value to another node, if it is in memory, or when it has come; now and then a reader loses its patience."""

        def answer(at: int | None) -> None:
            entry = None if at is None else self.memory.get(at)
            self.world.post(self.number, source, ("piece", oid, offset, entry))

        place = self.core.snapshot.place_of(oid)
        if place is not None or visit is None or self.rng.random() < IMPATIENT:
            answer(None if place is None else place[0])
        else:
            self.arrivals.read(oid, 0, VALUE_BYTES, visit, answer)

    def pulled(self, offset: int, success: bool) -> None:
        """Notify the core, and the nodes that wait for the same value, of the end of a read."""
        arrival = self.coming.pop(offset)
        waits = self.arrivals.end(arrival, success)
        if waits:
            self.observer.counts["passed on" if success else "waited without success"] += len(waits)
        self.tell(se.PullDone(se.PULL_DONE, offset, success))
        for wait in waits:
            place = self.core.snapshot.place_of(arrival.key) if success else None
            wait.answer(offset if place is not None and place[0] == offset else None)

    def add_peer(self, number: int, info: dict[str, Any]) -> None:
        """Add another node."""
        cid = admit_client(self.core, se.PeerJoined(se.PEER_JOINED, info), self.now)
        self.peers[cid] = number

    def remove_peer(self, number: int) -> None:
        """Remove another node."""
        for cid in [cid for cid, other in self.peers.items() if other == number]:
            del self.peers[cid]
            self._wary = WARY_STEPS
            self.tell(se.PeerLeft(se.PEER_LEFT, cid, "was lost"))
            self.apply()  # before anything else happens
            if not self.alive:
                return
        for offset in [offset for offset, source in self.reads.items() if source == number]:
            del self.reads[offset]
            self.pulled(offset, False)

    def info(self) -> dict[str, Any]:
        """Return the information about this node for others."""
        return {
            "node_id": self.node_id,
            "total": self.core.snapshot.total,
            "labels": self.core.snapshot.labels,
            "head": self.number == HEAD,
            "passes_on": True,
        }

    def gone(self) -> None:
        """Assert that nothing is left in the core after everything was released."""
        core = self.core
        assert not core.tasks, f"{self}: tasks that never end: {list(core.tasks.values())}; {self.why()}"
        assert not core.objects.records, (
            f"{self}: objects that nobody has: {list(core.objects.records.values())}"
        )
        assert core.capacity.available == core.capacity.total, (
            f"{self}: resources are missing: {core.capacity}"
        )
        assert core.allocator.used == 0, (
            f"{self}: {core.allocator.used} bytes of the arena are held by nobody"
        )
        assert not core.peers.waiting, f"{self}: tasks wait for a node: {core.peers.waiting}"
        assert not core.remote_objects.lineage.tasks, (
            f"{self}: tasks are kept for nothing: {core.remote_objects.lineage.tasks}"
        )
        assert not core.remote_objects.pulls and not self.reads, f"{self}: values are awaited although unused"
        assert not self.arrivals.by_key and not self.coming, f"{self}: values are passed on that never come"
        assert not core.placement.reserved, f"{self}: bundles are set apart for no group"
        living = [
            a for a in core.actors.actors.values() if a.state != DEAD and (a.hosted or self.number == HEAD)
        ]
        assert not living, f"{self}: actors that nobody can call live on: {living}"
        held = [a for a in core.actors.actors.values() if a.state != DEAD and (a.grants or a.holders)]
        assert not held, f"{self}: actors are held for nobody: {held}"
        assert not core.scheduler.waiting, core.scheduler.waiting
        busy = [worker for worker in core.scheduler.workers.values() if worker.outstanding or worker.lease]
        assert not busy, busy
        for peer in core.peers.alive.values():
            assert not peer.outstanding and not any(peer.classes.values()), (
                f"{self}: {peer} owes answers: {peer.classes}"
            )

    def __repr__(self) -> str:
        return f"<Node {self.number} {self.core}>"
