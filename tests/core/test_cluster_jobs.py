"""Jobs over nodes, as one core sees them: introduced before their work, and ended as the head says."""

from __future__ import annotations

from typing import Any

from skate.core.node import SHELL, NodeCore, admit_client
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import AdoptJob, CloseJob, ForgetJob
from skate.protocol.states import ALIVE, CREATION, DEAD, PLAIN

UNIT = 10_000
HERE, HEAD_ID, OTHER_ID = b"h" * 28, b"a" * 28, b"b" * 28
JOB = "00010001"


class Node:
    """A core, and what it has sent since the last look."""

    def __init__(self, cpus: int = 0) -> None:
        self.core = NodeCore({"CPU": cpus * UNIT}, node_id=HERE, facts={"machine": "one"})
        self.now = 0.0

    def peer(self, node_id: bytes, machine: str = "one", head: bool = False) -> int:
        info = {
            "node_id": node_id,
            "total": {"CPU": 4 * UNIT},
            "labels": {},
            "facts": {"machine": machine},
            "head": head,
        }
        return admit_client(self.core, se.PeerJoined(se.PEER_JOINED, info), self.now)

    def driver(self) -> int:
        return admit_client(
            self.core, se.JobBegun(se.JOB_BEGUN, JOB, "space", b"reduced", b"whole"), self.now
        )

    def step(self, cid: int, *message: Any) -> None:
        self.core.step(cid, message, self.now)

    def sent(self, to: int, *tags: int) -> list[tuple[Any, ...]]:
        """Return the messages to a client of these types; forget all effects but the shell's."""
        return [tuple(each) for cid, each in self.core.effects if cid == to and each[0] in tags]

    def shell(self, kind: type) -> list[Any]:
        return [each for cid, each in self.core.effects if cid == SHELL and isinstance(each, kind)]

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.core.tick(self.now)


def template(kind: str) -> dict[str, Any]:
    return {"name": "f", "kind": kind, "function": b"f" * 16, "request": {"CPU": UNIT}, "job": JOB}


def submit(node: Node, cid: int, number: int = 1) -> bytes:
    """Submit a task of a program here; no CPU is free on this node."""
    node.step(cid, m.FUNCTION, b"f" * 16, b"code", ())
    node.step(cid, m.TEMPLATE, b"t" * 16, template("task"))
    task_id = number.to_bytes(8, "little") + HERE[:8] + cid.to_bytes(4, "little") + bytes.fromhex(JOB)
    node.step(cid, m.SUBMIT, task_id, b"t" * 16, b"", (), (), b"")
    return task_id


def test_a_job_is_introduced_once_and_before_its_first_task() -> None:
    node = Node()
    near, far = node.peer(HEAD_ID), node.peer(OTHER_ID, machine="two")
    driver = node.driver()
    for number in range(1, 9):
        submit(node, driver, number)
    for peer, local_view in ((near, b"whole"), (far, b"")):
        sent = node.sent(peer, m.JOB, m.FORWARD)
        wanted = (m.JOB, JOB, "space", HERE, driver, b"reduced", local_view)
        assert sent[0] == wanted and len(sent) > 1, sent
        assert {each[0] for each in sent[1:]} == {m.FORWARD}


def test_the_head_knows_every_job() -> None:
    node = Node()
    head = node.peer(HEAD_ID, head=True)
    driver = node.driver()
    assert node.sent(head, m.JOB) == [(m.JOB, JOB, "space", HERE, driver, b"reduced", b"whole")]


def test_a_member_has_the_head_end_its_job() -> None:
    node = Node()
    head = node.peer(HEAD_ID, head=True)
    driver = node.driver()
    task_id = submit(node, driver)
    node.core.effects.clear()
    node.step(SHELL, se.JOB_ENDED, driver, (), "its driver has ended", 0, True)
    assert (m.CANCEL, task_id, True, True) in node.sent(head, m.CANCEL)
    assert node.sent(head, m.JOB_OVER) == [(m.JOB_OVER, JOB, HERE, driver, "its driver has ended")]
    assert not node.shell(CloseJob), "the head decides what stays"
    node.step(head, m.JOB_CLOSED, JOB, "its driver has ended", ())
    assert node.shell(CloseJob) == [CloseJob(JOB, 0, (head,))]
    node.step(head, m.FINISHED, task_id, 5, None)
    node.tick(1)
    assert node.shell(ForgetJob) == [ForgetJob(JOB)] and not node.core.jobs.jobs
    node.core.check()


def test_work_that_comes_after_the_end_of_its_job_ends_as_well() -> None:
    """Another node had not heard of the end when it introduced the job here."""
    node = Node(cpus=1)
    head, other = node.peer(HEAD_ID, head=True), node.peer(OTHER_ID)
    node.step(head, m.JOB_CLOSED, JOB, "its driver has ended", ())
    assert not node.shell(CloseJob)
    node.step(other, m.JOB, JOB, "space", OTHER_ID, 3, b"reduced", b"whole")
    assert node.shell(AdoptJob) == [AdoptJob(JOB, other, b"reduced", b"whole")]
    assert node.core.jobs.ended == {JOB}
    node.core.jobs.sweep()
    assert node.shell(ForgetJob) == [ForgetJob(JOB)]


def create(node: Node, peer: int, number: int, maker: int, detached: bool) -> bytes:
    """Have a program on a peer create an actor at this node, the head, which places it on a peer."""
    actor_id = OTHER_ID[:3] + maker.to_bytes(4, "little") + number.to_bytes(5, "little") + bytes.fromhex(JOB)
    life = {"actor_name": f"actor{number}", "namespace": "space", "detached": detached}
    fields = {"job": JOB, "namespace": "space", "attempt": 0, "life": life}
    node.step(peer, m.FORWARD, CREATION, actor_id, b"a" * 16, b"", (), (), b"", fields)
    node.step(place_of(node, actor_id), m.ACTOR_REPORT, actor_id, ALIVE, 0, 77, None)
    return actor_id


def place_of(node: Node, actor_id: bytes) -> int:
    place: int = node.core.actors.actors[actor_id].node.cid
    return place


def test_detached_actors_and_what_they_may_have_made_stay() -> None:
    node = Node()
    home, other = node.peer(OTHER_ID), node.peer(HEAD_ID)
    driver = 9
    node.step(home, m.JOB, JOB, "space", OTHER_ID, driver, b"reduced", b"whole")
    node.step(home, m.FUNCTION, b"f" * 16, b"code", ())
    node.step(home, m.TEMPLATE, b"a" * 16, template("actor"))
    plain = create(node, home, 1, driver, detached=False)
    kept = create(node, home, 2, driver, detached=True)
    made = create(node, home, 3, 44, detached=False)
    node.core.effects.clear()
    node.step(home, m.JOB_OVER, JOB, OTHER_ID, driver, "its driver has ended")
    closed = (m.JOB_CLOSED, JOB, "its driver has ended", (kept, made))
    assert node.sent(home, m.JOB_CLOSED) == node.sent(other, m.JOB_CLOSED) == [closed]
    actors = node.core.actors.actors
    assert actors[plain].state == DEAD and actors[plain].death is not None
    assert actors[plain].death.fields["message"] == "its driver has ended"
    assert actors[kept].state == actors[made].state == ALIVE
    # The second report of a node that has lost the driver's node, too, changes nothing.
    node.step(other, m.JOB_OVER, JOB, OTHER_ID, driver, "another reason")
    assert len(node.sent(other, m.JOB_CLOSED)) == 1
    node.core.effects.clear()
    for actor_id in (made, kept):
        node.step(
            place_of(node, actor_id),
            m.ACTOR_REPORT,
            actor_id,
            DEAD,
            0,
            77,
            ("ActorDiedError", {"message": "killed"}),
        )
    for _ in range(20):
        node.tick(1)
    assert [each[3] for each in node.sent(other, m.JOB_CLOSED)] == [()]
    assert node.shell(ForgetJob) == [ForgetJob(JOB)]
    node.core.check()


def test_the_job_of_a_lost_node_ends() -> None:
    node = Node(cpus=1)
    home, other = node.peer(OTHER_ID), node.peer(HEAD_ID)
    node.step(home, m.JOB, JOB, "space", OTHER_ID, 9, b"reduced", b"whole")
    # A task of the job runs here for another node than that of the driver.
    node.step(other, m.FUNCTION, b"f" * 16, b"code", ())
    node.step(other, m.TEMPLATE, b"t" * 16, template("task"))
    task_id = b"\x01".ljust(8, b"\0") + HEAD_ID[:8] + (5).to_bytes(4, "little") + bytes.fromhex(JOB)
    fields = {"attempt": 0, "retries": 3, "job": JOB, "namespace": "space"}
    node.step(other, m.FORWARD, PLAIN, task_id, b"t" * 16, b"", (), (), b"", fields)
    node.core.effects.clear()
    node.step(SHELL, se.PEER_LEFT, home, "has died")
    assert node.sent(other, m.JOB_CLOSED) == [
        (m.JOB_CLOSED, JOB, "the node of its driver has died", ()),
    ]
    assert all(worker.leaving for worker in node.core.scheduler.workers.values())
    assert node.core.jobs.ended == {JOB}
