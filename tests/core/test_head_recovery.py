"""A head with a store: nothing follows from a record before it is stored, and another head continues from the records."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.cluster.node_drains import IDLE
from skate.core.node import admit_client
from skate.core.recovery.head_recovery import RECOVERY_SECONDS
from skate.core.recovery.records import GONE_MAX, RECORDS, UnknownRecord, compacted, epoch_of, pack, unpack
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol import shell_events as se
from skate.protocol.effects import AdoptJob, AppendRecords, KillWorker, Spawn
from skate.protocol.states import ALIVE, DEAD, PENDING, RESTARTING
from skate.protocol.version import VERSION
from tests.core.rig import Rig

MEMBER = b"node0001".ljust(28, b".")
PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"
FOREVER = {"actor_name": "keeper", "detached": True, "max_restarts": -1}


class Head(Rig):
    """A head with a disk that outlives it."""

    def __init__(self, disk: list[rr.RegistryRecord], drivers: int = 1) -> None:
        self.disk = disk
        self.number = epoch_of(disk) + 1
        node_id = f"head{self.number:04}".encode().ljust(28, b".")
        records = list(disk)
        disk.append(rr.EpochRecord(rr.EPOCH, self.number))
        super().__init__(cpus=2, drivers=drivers, records=records, node_id=node_id)
        self._collect()

    def store(self) -> int:
        """Store all records, and let the core know; return how many there were."""
        count = 0
        while effects := self.shell(AppendRecords):
            for effect in effects:
                self.disk += effect.records
                count += len(effect.records)
            self.report(se.RecordsStored(se.RECORDS_STORED, effects[-1].number))
        return count

    def ask(self, number: int, verb: str, *arguments: Any, cid: int = 1) -> None:
        self.send(cid, m.REQUEST, number, verb, arguments)

    def replies(self, cid: int = 1) -> list[tuple[int, bool, Any]]:
        return [tuple(each[1:]) for each in self.received(cid, m.REPLY)]

    def member_joins(self) -> int:
        info = {"node_id": MEMBER, "total": {"CPU": 10_000}, "labels": {}}
        return admit_client(self.core, se.PeerJoined(se.PEER_JOINED, info), self.now)

    def run_actor(self) -> None:
        """Start the worker of an actor and its constructor, as far as they were asked for."""
        self.store()
        for cid in self.shell_cids(Spawn):
            self.send(cid, m.READY, 1, VERSION)
        self.store()
        for worker in list(self.core.scheduler.workers.values()):
            for _, actor_id, *_ in self.received(worker.cid, m.CONSTRUCT):
                self.send(worker.cid, m.DONE, actor_id, m.OK, (), 1, False)
        self.store()


def test_every_record_packs_and_another_version_is_refused() -> None:
    life = {"actor_name": "a", "namespace": "", "max_restarts": 0}
    records: list[rr.RegistryRecord] = [
        rr.EpochRecord(rr.EPOCH, 3),
        rr.MemberRecord(rr.MEMBER, MEMBER, "10.0.0.1"),
        rr.MemberGone(rr.MEMBER_GONE, MEMBER),
        rr.FunctionRecord(rr.FUNCTION, bytes(16), b"code", ()),
        rr.TemplateRecord(rr.TEMPLATE, bytes(16), {"name": "A", "function": bytes(16)}),
        rr.ActorRecord(
            rr.ACTOR, bytes(16), bytes(16), b"args", ((0, bytes(28)),), (), b"", life, MEMBER, "01", ""
        ),  # type: ignore[arg-type]
        rr.ActorStarted(rr.ACTOR_STARTED, bytes(16), 2),
        rr.ActorGone(rr.ACTOR_GONE, bytes(16)),
        rr.GroupRecord(rr.GROUP, bytes(18), ({"CPU": 10_000},), {"strategy": "PACK"}, MEMBER),
        rr.GroupGone(rr.GROUP_GONE, bytes(18)),
        rr.JobRecord(rr.JOB, "01", "space", MEMBER, 1, b"view", b""),
        rr.JobGone(rr.JOB_GONE, "01"),
        rr.EntryRecord(rr.ENTRY, b"space", b"key", b"value"),
        rr.EntryGone(rr.ENTRY_GONE, b"space", b"key"),
        rr.DrainRecord(rr.DRAIN, MEMBER, "was preempted", -1),
        rr.AnswerRecord(rr.ANSWER, MEMBER, 3, 1027, (True, "")),
    ]
    assert {type(each) for each in records} == set(RECORDS.values())
    for record in records:
        assert unpack(pack(record)) == record
        assert type(unpack(pack(record))) is type(record)
    with pytest.raises(UnknownRecord, match="another version of Skate"):
        unpack(b"\x91\xcd\x03\xe7")


def test_the_least_list_of_records_has_the_last_of_each_key() -> None:
    def entry(key: bytes, value: bytes) -> rr.EntryRecord:
        return rr.EntryRecord(rr.ENTRY, b"", key, value)

    records: list[rr.RegistryRecord] = [
        rr.EpochRecord(rr.EPOCH, 1),
        entry(b"a", b"1"),
        entry(b"b", b"1"),
        rr.TemplateRecord(rr.TEMPLATE, bytes(16), {"name": "A", "function": b""}),
        entry(b"a", b"2"),
        rr.EntryGone(rr.ENTRY_GONE, b"", b"b"),
        rr.EpochRecord(rr.EPOCH, 2),
        rr.ActorStarted(rr.ACTOR_STARTED, bytes(16), 1),
        rr.MemberRecord(rr.MEMBER, MEMBER, "10.0.0.1"),
        rr.DrainRecord(rr.DRAIN, MEMBER, "was preempted", -1),
        rr.AnswerRecord(rr.ANSWER, MEMBER, 3, 3, True),
        rr.MemberGone(rr.MEMBER_GONE, MEMBER),
    ]
    records += [rr.ActorGone(rr.ACTOR_GONE, number.to_bytes(16, "big")) for number in range(GONE_MAX + 5)]
    least = compacted(records)
    assert least[:2] == [rr.EpochRecord(rr.EPOCH, 2), entry(b"a", b"2")]
    assert len(least) == 2 + GONE_MAX and compacted(least) == least and epoch_of(least) == 2


def test_an_answer_waits_until_its_record_is_stored() -> None:
    head = Head([])
    head.ask(1, "kv_put", b"space", b"key", b"value", True)
    head.ask(2, "kv_get", b"space", b"key")
    assert head.replies() == []  # the second has to see what the first does
    task_id = head.submit()
    assert head.core.tasks[task_id] and head.shell_cids(Spawn)  # tasks do not wait
    assert head.store() == 1
    head.ask(3, "kv_get", b"space", b"key")
    assert head.replies() == [(1, True, False), (2, True, b"value"), (3, True, b"value")]


def test_decisions_are_made_in_turn() -> None:
    head = Head([])
    for number in (1, 2):
        head.ask(number, "kv_put", b"", b"key", b"%d" % number, False)
    assert head.store() == 1
    assert head.replies() == [(1, True, False), (2, True, True)]
    assert head.core.queries.key_values.kept == {(b"", b"key"): b"1"}


def test_what_cannot_be_stored_fails_and_the_rest_continues() -> None:
    head = Head([])
    head.ask(1, "kv_put", b"", b"key", b"value", True)
    actor_id = head.create(**FOREVER)
    (first,) = head.shell(AppendRecords)
    head.report(se.RecordsRefused(se.RECORDS_REFUSED, first.number, "no space left on device"))
    ((number, ok, (name, fields)),) = head.replies()
    assert (number, ok, name) == (1, False, "OutOfDiskError") and "no space left" in fields["message"]
    (second,) = head.shell(AppendRecords)
    head.report(se.RecordsRefused(se.RECORDS_REFUSED, second.number, "no space left on device"))
    assert head.core.actors.actors[actor_id].state == DEAD
    (end,) = head.shell(AppendRecords)
    head.report(se.RecordsRefused(se.RECORDS_REFUSED, end.number, "no space left on device"))
    head.ask(3, "kv_put", b"", b"key", b"value", True)
    (effect,) = head.shell(AppendRecords)
    # The end of the actor, which has happened, is stored with the next record.
    assert [type(each) for each in effect.records] == [rr.ActorGone, rr.EntryRecord]
    head.report(se.RecordsStored(se.RECORDS_STORED, effect.number))
    assert head.replies() == [(3, True, False)]


def test_an_actor_has_neither_name_nor_worker_before_it_is_stored() -> None:
    head = Head([])
    actor_id = head.create(**FOREVER)
    head.ask(1, "get_actor", "", "keeper")
    assert head.replies() == [] and not head.shell(Spawn)
    head.store()
    assert head.replies() == [(1, True, (actor_id, b""))] and head.shell(Spawn)


def test_an_actor_that_is_killed_while_it_is_stored_never_starts() -> None:
    head = Head([])
    actor_id = head.create(**FOREVER)
    head.send(1, m.KILL, actor_id, True)
    head.store()
    assert not head.shell(Spawn) and head.core.actors.actors[actor_id].state == DEAD
    assert not any(isinstance(each, rr.ActorRecord) for each in compacted(head.disk))


def test_the_next_head_restarts_detached_actors_and_has_all_entries() -> None:
    disk: list[rr.RegistryRecord] = []
    head = Head(disk)
    head.ask(1, "kv_put", b"space", b"key", b"value", True)
    actors = [
        head.create(**FOREVER),
        head.create(actor_name="once", detached=True),
        head.create(actor_name="mine", max_restarts=-1),
    ]
    for _ in actors:
        head.run_actor()
    assert all(head.core.actors.actors[each].state == ALIVE for each in actors)
    waits = head.create(actor_name="late", detached=True, request={"CPU": 20_000})
    head.submit(request={"CPU": 20_000})
    head.store()

    head = Head(disk)
    head.ask(1, "get_actor", "", "keeper")
    assert not head.replies()  # it listens first
    head.tick(0.0)
    assert head.replies() == [(1, True, (actors[0], b""))]
    states = {each: head.core.actors.actors[each].state for each in (*actors, waits)}
    assert states == {actors[0]: RESTARTING, actors[1]: DEAD, actors[2]: DEAD, waits: PENDING}
    head.ask(2, "kv_get", b"space", b"key")
    assert head.replies() == [(2, True, b"value")]
    head.run_actor()
    actor = head.core.actors.actors[actors[0]]
    assert actor.state == ALIVE and actor.restarts == 1
    names = [each.life["actor_name"] for each in compacted(disk) if isinstance(each, rr.ActorRecord)]
    assert names == ["keeper", "late"]


def test_a_job_whose_driver_was_at_the_last_head_ends() -> None:
    disk: list[rr.RegistryRecord] = []
    head = Head(disk, drivers=0)
    admit_client(head.core, se.JobBegun(se.JOB_BEGUN, "01", "space", b"view", b"local"), 0.0)
    head._collect()
    head.store()
    head = Head(disk)
    head.tick(0.0)
    assert head.shell(AdoptJob) == [AdoptJob("01", 0, b"view", b"local")]
    head.store()
    assert not head.core.jobs.jobs and not any(isinstance(each, rr.JobRecord) for each in compacted(disk))


def hosted(disk: list[rr.RegistryRecord]) -> tuple[Head, bytes, bytes]:
    """Return the next head after one with a member, an actor there, and one whose place is not known."""
    head = Head(disk)
    head.member_joins()
    head._collect()
    there, lost = head.create(**FOREVER), head.create(actor_name="lost", detached=True, max_restarts=1)
    for _ in range(2):
        head.run_actor()
    head.store()
    return Head(disk), there, lost


def test_a_head_listens_until_its_members_have_registered() -> None:
    head, there, lost = hosted([])
    head.tick(0.0)
    head.tick(RECOVERY_SECONDS / 2)
    assert not head.core.actors.actors
    cid = head.member_joins()
    head.send(cid, m.ACTOR_REPORT, there, ALIVE, 3, 77, None)
    head.send(cid, m.HOLD, there)
    head.ask(1, "get_actor", "", "keeper")
    assert not head.replies()
    head.send(cid, m.REGISTERED)
    head.tick(0.0)
    assert head.replies() == [(1, True, (there, b""))]
    actor = head.core.actors.actors[there]
    assert (actor.state, actor.restarts, actor.pid, actor.node.cid) == (ALIVE, 3, 77, cid)
    assert actor.holders == {cid: 1} and head.core.actors.actors[lost].state == RESTARTING
    assert [each[1] for each in head.received(cid, m.ACTOR_AT)] == [there]


def test_after_the_grace_time_an_absent_member_is_lost() -> None:
    disk: list[rr.RegistryRecord] = []
    head, there, lost = hosted(disk)
    head.tick(0.0)
    head.tick(RECOVERY_SECONDS + 0.1)
    assert {head.core.actors.actors[each].state for each in (there, lost)} == {RESTARTING}
    head.store()
    assert not any(isinstance(each, rr.MemberRecord) for each in compacted(disk))


def test_a_member_keeps_its_actors_and_registers_them_with_the_next_head() -> None:
    member = Rig(node_id=MEMBER)
    head = {"node_id": b"head0001".ljust(28, b"."), "total": {}, "labels": {}, "head": True}
    first = admit_client(member.core, se.PeerJoined(se.PEER_JOINED, head), 0.0)
    own = member.create(actor_name="own")
    member.send(1, m.REQUEST, 5, "kv_get", (b"", b"key"))
    actor_id = b"actor".ljust(12, b".") + b"job0"
    member.send(first, m.TEMPLATE, b"t" * 16, {"name": "A", "function": b"", "request": {}})
    life = {"actor_name": "", "namespace": "", "max_restarts": 0, "restarts": 0}
    fields = {"attempt": 0, "retries": 0, "life": life}
    member.send(first, m.FORWARD, 1, actor_id, b"t" * 16, b"", (), (), b"", fields)
    (cid,) = member.shell_cids(Spawn)
    member.send(cid, m.READY, 7, VERSION)
    member.send(cid, m.DONE, actor_id, m.OK, (), 1, False)
    member.report(se.PeerLeft(se.PEER_LEFT, first, "was lost"))
    assert member.core.actors.actors[actor_id].state == ALIVE and not member.received(cid, m.EXIT)
    member.outbox.clear()
    head["node_id"] = b"head0002".ljust(28, b".")
    second = admit_client(member.core, se.PeerJoined(se.PEER_JOINED, head), 0.0)
    member._collect()
    sent = [message[:2] for to, message in member.outbox if to == second]
    assert sent.index((m.ACTOR_REPORT, actor_id)) < sent.index((m.REGISTERED,))
    assert [message[2] for to, message in member.outbox if to == second and message[0] == m.FORWARD] == [own]
    assert [message[2] for to, message in member.outbox if to == second and message[0] == m.REQUEST] == [
        "kv_get"
    ]
    # The next head does not want the actor: it ends as any other that nobody uses.
    member.send(second, m.FREE, actor_id, 1)
    assert member.received(cid, m.EXIT)


def with_member(disk: list[rr.RegistryRecord]) -> tuple[Head, int]:
    """Return a head with a member that has joined, and the client id of that."""
    head = Head(disk)
    cid = head.member_joins()
    head._collect()
    if head.core.recovery is None:
        head.store()
    return head, cid


def next_head(disk: list[rr.RegistryRecord], *reports: tuple[Any, ...]) -> tuple[Head, int]:
    """Return the next head, which has heard what its member reports, and has decided."""
    head, cid = with_member(disk)
    head.tick(0.0)
    for report in (*reports, (m.REGISTERED,)):
        head.send(cid, *report)
    head.tick(0.0)
    return head, cid


@pytest.mark.parametrize(
    ("verb", "arguments", "answer"),
    [
        ("kv_put", (b"", b"new", b"value", False), False),
        ("kv_put", (b"", b"old", b"value", True), True),
        ("kv_delete", (b"", b"old", False), 1),
        ("create_group", (bytes(18), ({"CPU": 10_000},), {"strategy": "PACK"}), None),
    ],
)
def test_a_question_that_was_stored_and_not_answered_is_not_done_twice(
    verb: str, arguments: tuple[Any, ...], answer: Any
) -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    head.ask(1, "kv_put", b"", b"old", b"first", True)
    head.store()
    head.ask(7, verb, *arguments, cid=cid)
    (effect,) = head.shell(AppendRecords)
    disk += effect.records  # and the head dies before it knows
    head, cid = next_head(disk, (m.REQUEST, 7, verb, arguments))
    assert head.replies(cid) == [(7, True, answer)]
    changed = [each for effect in head.shell(AppendRecords) for each in effect.records]
    assert not any(isinstance(each, rr.AnswerRecord) for each in changed)
    # Another question with the same words is another one.
    head.ask(8, verb, *arguments, cid=cid)
    head.store()
    kept = head.core.queries.key_values.kept
    again = {"kv_put": True, "kv_delete": 0, "create_group": None}[verb]
    assert head.replies(cid) == [(8, True, again)], kept


def test_an_entry_that_was_written_since_is_not_overwritten_by_a_repeated_question() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    head.ask(7, "kv_put", b"", b"key", b"first", True, cid=cid)
    head.store()  # the member does not get the answer
    head.ask(1, "kv_put", b"", b"key", b"second", True)
    head.store()
    head, cid = next_head(disk, (m.REQUEST, 7, "kv_put", (b"", b"key", b"first", True)))
    assert head.replies(cid) == [(7, True, False)]
    assert head.core.queries.key_values.kept == {(b"", b"key"): b"second"}


def test_the_next_head_continues_a_drain_of_which_the_node_was_not_told() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    head.ask(1, "drain_node", MEMBER, PREEMPTION, "", 90)
    assert not head.received(cid, m.DRAIN)  # it is stored first
    head.store()
    assert head.received(cid, m.DRAIN) and head.replies() == [(1, True, (True, ""))]
    head, cid = next_head(disk)
    assert head.received(cid, m.DRAIN) == [(m.DRAIN, MEMBER, "was preempted", 90)]
    head.report(se.PeerLeft(se.PEER_LEFT, cid, "was preempted"))
    head.store()
    assert not any(isinstance(each, rr.DrainRecord) for each in compacted(disk))


def test_the_next_head_takes_the_time_of_a_drain_from_the_node() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    head.ask(1, "drain_node", MEMBER, PREEMPTION, "", 90)
    head.store()
    actor_id = head.create(**FOREVER)
    head.store()
    head, cid = next_head(disk, (m.DRAIN, MEMBER, "was preempted", 60))
    assert head.received(cid, m.DRAIN) == [(m.DRAIN, MEMBER, "was preempted", 60)]
    # What it restarts does not go there.
    assert actor_id in head.core.actors.actors and not head.received(cid, m.FORWARD)


def test_a_drain_of_a_node_that_gets_work_while_it_is_stored_is_withdrawn() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    head.ask(1, "drain_node", MEMBER, IDLE, "", -1)
    head.core.members.alive[cid].take({"CPU": 5_000})
    head.store()
    ((_, _, (accepted, text)),) = head.replies()
    assert not accepted and "not idle" in text
    head, cid = next_head(disk)
    assert not head.received(cid, m.DRAIN)


def registered_with(member: Rig, number: int) -> tuple[int, list[tuple[Any, ...]]]:
    """Give a member another head; return the client id of that and what it was sent."""
    for peer in list(member.core.members.alive):
        member.report(se.PeerLeft(se.PEER_LEFT, peer, "was lost"))
    member.outbox.clear()
    info = {"node_id": f"head{number:04}".encode().ljust(28, b"."), "total": {}, "labels": {}, "head": True}
    cid = admit_client(member.core, se.PeerJoined(se.PEER_JOINED, info), member.now)
    member._collect()
    return cid, [message for to, message in member.outbox if to == cid]


@pytest.mark.parametrize("is_told", [False, True])
def test_a_member_that_drains_or_has_to_stop_tells_the_next_head(is_told: bool) -> None:
    member = Rig(node_id=MEMBER)
    first, _ = registered_with(member, 1)
    submitted = member.submit()
    assert submitted in member.core.tasks
    member.report(se.StopWanted(se.STOP_WANTED, 16))
    if is_told:
        member.send(first, m.DRAIN, MEMBER, "was stopped", 16)
    member.now += 4
    _, sent = registered_with(member, 2)
    told = (m.DRAIN, MEMBER, "was stopped", 12)
    assert sent.index(told) < sent.index((m.REGISTERED,))


def test_a_member_repeats_a_kill_until_a_head_reports_the_end() -> None:
    member = Rig(node_id=MEMBER)
    first, _ = registered_with(member, 1)
    actor_id = member.create()
    facts = {"class_name": "Actor", "name": "", "task_retries": 0, "in_order": True}
    place = b"node0002".ljust(28, b".")
    member.send(first, m.ACTOR_AT, actor_id, ALIVE, place, facts)
    member.send(1, m.KILL, actor_id, False)  # which might end it twice
    assert (m.KILL, actor_id, True) not in registered_with(member, 2)[1]
    member.send(1, m.KILL, actor_id, True)
    third, sent = registered_with(member, 3)
    assert sent.index((m.REGISTERED,)) < sent.index((m.KILL, actor_id, True))
    death = ("ActorDiedError", {"message": "it was killed"})
    member.send(third, m.ACTOR_AT, actor_id, DEAD, place, {**facts, "death": death})
    assert (m.KILL, actor_id, True) not in registered_with(member, 4)[1]


def test_nobody_learns_of_a_kill_before_it_is_stored() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    actor_id = head.create(**FOREVER)
    head.run_actor()
    head.send(cid, m.SEEK, actor_id)
    head.received(cid, m.ACTOR_AT)
    head.send(cid, m.KILL, actor_id, True)
    assert not head.received(cid, m.ACTOR_AT) and not head.shell_cids(KillWorker)
    assert head.core.actors.actors[actor_id].state == ALIVE
    head.store()
    (end,) = head.received(cid, m.ACTOR_AT)
    assert end[2] == DEAD and head.shell_cids(KillWorker)
    gone = [each for each in disk if isinstance(each, rr.ActorGone)]
    assert gone == [rr.ActorGone(rr.ACTOR_GONE, actor_id)]


def test_the_next_head_kills_an_actor_whose_end_was_stored_and_not_told() -> None:
    disk: list[rr.RegistryRecord] = []
    head, cid = with_member(disk)
    actor_id = head.create(**FOREVER)
    head.run_actor()
    head.send(1, m.KILL, actor_id, True)
    (effect,) = head.shell(AppendRecords)
    disk += effect.records  # and the head dies before it knows
    head, cid = next_head(disk, (m.ACTOR_REPORT, actor_id, ALIVE, 0, 77, None))
    assert head.received(cid, m.KILL) == [(m.KILL, actor_id, True)]


def test_an_actor_is_killed_although_that_cannot_be_stored() -> None:
    head = Head([])
    actor_id = head.create(**FOREVER)
    head.run_actor()
    head.send(1, m.KILL, actor_id, True)
    (effect,) = head.shell(AppendRecords)
    head.report(se.RecordsRefused(se.RECORDS_REFUSED, effect.number, "no space left on device"))
    assert head.core.actors.actors[actor_id].state == DEAD and head.shell_cids(KillWorker)
    head.store()
    assert rr.ActorGone(rr.ACTOR_GONE, actor_id) in head.disk


def test_a_member_binds_the_creation_of_an_actor() -> None:
    """Another node that gets the handle must not ask the head before the creation is there."""
    member = Rig(node_id=MEMBER)
    info = {"node_id": b"head0001".ljust(28, b"."), "total": {}, "labels": {}, "head": True}
    head = admit_client(member.core, se.PeerJoined(se.PEER_JOINED, info), 0.0)
    actor_id = member.create()
    sent = [message for to, message in member.outbox if to == head and message[0] in (m.FORWARD, m.HOLD)]
    assert [each[0] for each in sent] == [m.FORWARD, m.HOLD] and sent[1][1] == actor_id
    member.send(1, m.FREE, actor_id, 1)
    facts = {"class_name": "Actor", "name": "", "task_retries": 0, "in_order": True}
    member.send(head, m.ACTOR_AT, actor_id, ALIVE, info["node_id"], facts)
    assert [message[1:] for message in member.received(head, m.FREE)] == [(actor_id, 2)]
