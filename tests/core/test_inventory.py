"""Rows of a node, and surveys: each row once, in steps that stay short, with the same facts for everybody who asks."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.node import NodeCore
from skate.core.state import surveys
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.states import GroupState
from skate.simulation.programs.spec import CPU, Spec
from tests.core.rig import Rig, first

HERE, THERE = (name.encode().ljust(28, b".") for name in ("here", "there"))
OBJECTS = ("objects", "references", "tasks", "workers")


class SurveyRig(Rig):
    """A rig whose surveys make four rows in a step."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.core.surveys.slice = 4 * surveys.ROW_WORK

    def begin(self, *kinds: str, limit: int = 0, detail: bool = False, cid: int = 1, **where: Any) -> None:
        self.count += 1
        self.send(cid, m.REQUEST, self.count, "survey", (self.count, kinds, where, limit, detail))

    def answer(self) -> None:
        """Answer for the processes."""
        for to, message in list(self.outbox):
            if message[0] == m.SURVEY:
                self.outbox.remove((to, message))
                self.send(to, m.SURVEYED, message[1], {"pid": to, "driver": to == 1})

    def end(self) -> tuple[list[dict[str, Any]], int]:
        """Return the parts of the survey that was begun, and the number of its steps."""
        steps = 1
        while True:
            self.answer()
            if replies := self.received(1, m.REPLY):
                ((_, _, ok, (parts, missing)),) = replies
                assert ok and not missing
                return parts, steps
            assert self.core.timers, "no survey is in progress"
            self.tick(2 * surveys.PAUSE_SECONDS)
            steps += 1

    def survey(self, *kinds: str, limit: int = 0, **where: Any) -> list[dict[str, Any]]:
        self.begin(*kinds, limit=limit, **where)
        parts, _ = self.end()
        return rows(parts, kinds[0])

    def publish(self) -> bytes:
        oid = self.oid()
        self.send(1, m.PUBLISH, oid, m.INLINE, b"value", (), True)
        return oid


def rows(parts: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.get(kind, ())]


def states(found: list[dict[str, Any]]) -> dict[bytes, str]:
    return {row["task"]: row["state"] for row in found}


def test_a_survey_of_many_tasks_leaves_room_for_other_messages() -> None:
    rig = SurveyRig()
    ids = [rig.submit() for _ in range(30)]
    rig.begin("tasks")
    assert not rig.received(1, m.REPLY), "30 tasks do not fit into one step"
    assert rig.core.snapshot.watchful and rig.tick(0.0) == surveys.PAUSE_SECONDS
    rig.done(rig.worker_of(ids[0]), ids[0])
    assert rig.result(ids[0]) == "ok"
    parts, steps = rig.end()
    assert steps >= 30 // 4 and all(len(part.get("tasks", ())) <= 4 for part in parts)
    found = rows(parts, "tasks")
    assert {row["task"] for row in found} == set(ids)
    assert [row["state"] for row in found if row["task"] == ids[0]][-1] == "FINISHED"
    assert not rig.core.surveys.in_progress


@pytest.mark.parametrize("status", [m.OK, m.FAILED])
def test_a_task_that_ends_during_a_survey_before_its_turn_is_listed_as_ended(status: int) -> None:
    rig = SurveyRig(cpus=20)
    ids = [rig.submit() for _ in range(20)]
    rig.begin("tasks")
    rig.done(
        rig.worker_of(ids[-1]),
        ids[-1],
        status,
        None if status == m.OK else ("TypeError", {"message": "of mine"}),
    )
    found = rows(rig.end()[0], "tasks")
    assert len(found) == len(ids)
    assert found[-1].get("message") == (None if status == m.OK else "of mine")
    assert states(found)[ids[-1]] == ("FINISHED" if status == m.OK else "FAILED")


def test_an_attempt_has_one_row_while_it_is_repeated() -> None:
    rig = SurveyRig(cpus=1)
    task = rig.submit(retries=1)
    rig.done(rig.worker_of(task), task, m.FAILED, ("RayTaskError", {}), retriable=True)
    found = rig.survey("tasks")
    assert [(row["attempt"], row["state"]) for row in found] == [(0, "FAILED"), (1, "RUNNING")]


def test_a_few_rows_take_one_step() -> None:
    rig = SurveyRig()
    rig.submit()
    rig.begin("tasks")
    assert rig.received(1, m.REPLY) and not rig.core.timers


def test_only_as_many_rows_are_made_as_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = SurveyRig()
    for _ in range(30):
        rig.submit()
    made = []
    explain = rig.core.wait_explainer.of_task
    monkeypatch.setattr(rig.core.wait_explainer, "of_task", lambda task: made.append(task) or explain(task))
    rig.begin("tasks", limit=3, detail=True)
    ((_, _, _, (parts, _)),) = rig.received(1, m.REPLY)
    assert len(rows(parts, "tasks")) == len(made) == 3
    rig.begin("tasks", limit=3)
    assert len(made) == 3, "no query needs the reasons"


def test_rows_are_chosen_by_their_columns() -> None:
    rig = SurveyRig()
    running = rig.submit(name="one")
    queued = [rig.submit(name=name) for name in ("two", "two", "Three")]
    assert [row["task"] for row in rig.survey("tasks", state="running")] == [running]
    assert [row["task"] for row in rig.survey("tasks", name="TWO", limit=1)] == queued[:1]
    assert [row["task"] for row in rig.survey("tasks", name="three")] == queued[2:]
    assert [row["name"] for row in rig.survey("tasks", task=queued[0])] == ["two"]
    assert rig.survey("tasks", task=rig.task_id()) == []
    rig.done(rig.worker_of(running), running)
    assert [row["task"] for row in rig.survey("tasks", state="FINISHED", name="one")] == [running]


def test_tasks_in_progress_can_be_had_without_those_that_have_ended() -> None:
    rig = SurveyRig()
    ended, running, queued = (rig.submit() for _ in range(3))
    rig.done(rig.worker_of(ended), ended)
    assert states(rig.ask("rows", "tasks_in_progress", {})).keys() == {running, queued}
    assert states(rig.ask("rows", "tasks_in_progress", {"task": running})) == {running: "RUNNING"}
    assert rig.ask("rows", "tasks_in_progress", {"task": ended}) == []


def test_the_creation_of_an_actor_has_the_name_of_its_constructor() -> None:
    rig = SurveyRig()
    actor_id, _ = rig.living()
    (row,) = rig.survey("tasks", task=actor_id)
    assert row["name"] == row["function"] == "Actor.__init__"
    assert rig.survey("tasks", name="Actor") == []


def test_a_client_that_stops_waiting_gets_the_rows_so_far() -> None:
    rig = SurveyRig()
    for _ in range(30):
        rig.submit()
    rig.begin("tasks")
    parts, missing = rig.ask("survey_so_far", rig.count)
    assert len(rows(parts, "tasks")) == 4 and len(missing) == 1
    rig.tick(1.0)
    assert not rig.core.timers and not rig.received(1, m.REPLY)


def test_a_survey_ends_with_the_process_that_asked() -> None:
    rig = SurveyRig(drivers=2)
    for _ in range(30):
        rig.submit()
    rig.begin("tasks", cid=2)
    rig.lose(2)
    rig.tick(1.0)
    assert not rig.core.timers and not rig.core.surveys.in_progress and not rig.received(2, m.REPLY)


def test_objects_and_all_that_keeps_them() -> None:
    rig = SurveyRig()
    used, inner, captured, free = (rig.publish() for _ in range(4))
    outer = rig.oid()
    rig.send(1, m.PUBLISH, outer, m.INLINE, b"value", (inner,), True)
    rig.send(1, m.FUNCTION, b"closure".ljust(16, b"."), b"code", (captured,))
    task = rig.submit(used, name="user")
    rig.begin(*OBJECTS)
    parts, steps = rig.end()
    assert steps > 1
    assert {row["object"] for row in rows(parts, "objects")} >= {used, inner, captured, free, outer}
    assert [(row["why"], row["holder"], row["ids"]) for row in rows(parts, "references")] == [
        ("USED_BY_PENDING_TASK", "task user (RUNNING)", [used]),
        ("CAPTURED_IN_OBJECT", outer.hex(), [inner]),
        ("CAPTURED_IN_OBJECT", "the definition of a function", [captured]),
    ]
    rig.begin(*OBJECTS, object=inner, task=inner[:24])
    parts, _ = rig.end()
    assert [row["object"] for row in rows(parts, "objects")] == [inner]
    assert [row["ids"] for row in rows(parts, "references")] == [[inner]]
    assert not rows(parts, "tasks") and rows(parts, "workers")
    rig.begin(*OBJECTS, object=first(task), task=task)
    assert [row["task"] for row in rows(rig.end()[0], "tasks")] == [task]


def test_an_actor_that_may_restart_keeps_its_arguments() -> None:
    rig = SurveyRig()
    argument = rig.publish()
    actor_id = rig.create(argument, max_restarts=1)
    rig.done(rig.core.actors.actors[actor_id].worker.cid, actor_id, returns=())
    assert actor_id not in rig.core.tasks
    assert [row["ids"] for row in rig.ask("rows", "references", {})] == [[argument]]


def test_everybody_gets_the_same_rows() -> None:
    rig = SurveyRig(cpus=2)
    actor_id, worker = rig.living(actor_name="a", request={"CPU": CPU})
    rig.group({"CPU": CPU})
    status = rig.core.snapshot.status()
    assert status["nodes"] == rig.ask("rows", "nodes", {}) == rig.survey("nodes")
    assert rig.ask("rows", "actors", {}) == rig.survey("actors", actor=actor_id) == rig.survey("actors")
    (shown,) = status["actors"]
    (row,) = rig.ask("rows", "actors", {"state": "alive"})
    assert shown == {
        "actor_id": actor_id.hex(), "alive": True, "class_name": "Actor", "state": "ALIVE", "name": "a", "namespace": "",
        "pid": row["pid"], "restarts": 0, "job": "",
    }  # fmt: skip
    (group,) = rig.ask("rows", "groups", {})
    assert group["state"] == GroupState.CREATED and rig.ask("rows", "groups", {"name": "other"}) == []
    assert rig.ask("rows", "groups", {"placement_group_id": group["placement_group_id"]}) == [group]
    assert rig.ask("rows", "wonders", {}) == (
        "refused",
        ("ValueError", {"message": "there are no rows of 'wonders'"}),
    )


def test_worker_rows_of_the_living_and_the_dead() -> None:
    rig = SurveyRig()
    task = rig.submit()
    worker = rig.worker_of(task)
    rig.report(se.WorkerStarted(se.WORKER_STARTED, worker, 77))
    rig.lose(worker)
    found = rig.ask("rows", "workers", {})
    assert [(row["cid"], row["pid"], row["alive"]) for row in found][-1] == (worker, 77, False)
    assert found[-1]["reason"] == "was killed" and found[-1]["outstanding"] == 1


def test_waiting_work_is_counted_by_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = SurveyRig(cpus=1)
    running = rig.submit(name="runs")
    rig.send(1, m.ESCAPE, first(running))
    late = rig.submit(first(running), name="late")
    for _ in range(3):
        rig.submit(name="queued")
    rig.submit(name="much", request={"CPU": CPU // 2})
    explained: dict[tuple[str, str], int] = {}
    for task in rig.core.tasks.values():
        if task.task_id != running:
            key = (task.template.name, rig.core.wait_explainer.of_task(task))
            explained[key] = explained.get(key, 0) + 1
    calls = []
    explain = rig.core.wait_explainer.of_task
    monkeypatch.setattr(
        rig.core.wait_explainer,
        "of_task",
        lambda task, *links: calls.append(task.template.name) or explain(task, *links),
    )
    demand = rig.core.snapshot.status()["pending"]
    assert calls.count("queued") == 1, "they all wait for the same"
    assert {(name, why): count for name, count, why in demand} == explained
    assert [count for name, count, _ in demand] == [1, 3, 1]
    assert "1 of its arguments is still computed (runs" in demand[0][2] and rig.state(late) is not None


def pair(head: bool) -> NodeCore:
    """Return a node with another one, which is its head or not."""
    node = NodeCore({"CPU": CPU}, node_id=HERE)
    node.surveys.slice = 4 * surveys.ROW_WORK
    info = {"node_id": THERE, "total": {"CPU": CPU}, "labels": {}, "head": head}
    node.cluster.join(50, info, 0.0)
    node.connect(1, "job", "", True)
    node.effects.clear()
    return node


def test_the_head_answers_for_actors_and_groups() -> None:
    node = pair(head=True)
    for kind, to_head in (("actors", True), ("groups", True), ("nodes", False), ("tasks", False)):
        node.step(1, (m.REQUEST, 1, "rows", (kind, {})), 0.0)
        ((to, message),) = node.effects
        assert (to, message[0]) == ((50, m.REQUEST) if to_head else (1, m.REPLY))
        node.effects.clear()
    node.step(1, (m.REQUEST, 2, "survey", (1, ("actors",), {}, 0, False)), 0.0)
    (key,) = node.surveys.in_progress
    node.step(50, (m.SURVEYED, key, {"node": THERE, "actors": ["a row"]}), 0.0)
    node.effects.clear()
    node.step(50, (m.SURVEY_END, key), 0.0)
    ((_, (_, _, ok, (parts, _))),) = node.effects
    assert ok and [part.get("actors") for part in parts] == [None, ["a row"]]


def test_several_nodes_leave_the_choice_by_state_and_the_limit_to_the_client() -> None:
    node = pair(head=False)
    spec = Spec("f")
    node.step(1, (m.FUNCTION, spec.fields()["function"], b"code", ()), 0.0)
    node.step(1, (m.TEMPLATE, spec.key, spec.fields()), 0.0)
    for number in range(3):
        task_id = number.to_bytes(8, "little") + HERE[:8] + b"\1\0\0\0job0"
        node.step(1, (m.SUBMIT, task_id, spec.key, b"", (), (), b""), 0.0)
    node.effects.clear()
    node.step(1, (m.REQUEST, 2, "survey", (1, ("tasks",), {"state": "RUNNING", "name": "f"}, 1, False)), 0.0)
    ((to, message),) = [each for each in node.effects if each[0] == 50]
    (key,) = node.surveys.in_progress
    assert tuple(message) == (m.SURVEY, key, ("tasks",), {"name": "f"}, 0, False)
    assert len(node.surveys.in_progress[key].parts[0]["tasks"]) == 3


def test_a_node_passes_its_rows_on_in_several_parts() -> None:
    node = pair(head=True)
    for number in range(10):
        oid = number.to_bytes(8, "little") + HERE[:8] + b"\1\0\0\0job0" + b"\1\0\0\x80"
        node.step(1, (m.PUBLISH, oid, m.INLINE, b"value", (), True), 0.0)
    node.effects.clear()
    node.step(50, (m.SURVEY, b"key", ("objects",), {}, 0, False), 0.0)
    node.step(1, (m.SURVEYED, b"key", {"pid": 1, "driver": True}), 0.0)
    node.tick(0.1)
    assert not [message for _, message in node.effects if message[0] == m.SURVEY_END]
    node.tick(0.2)
    sent = [message for to, message in node.effects if to == 50 and message[0] != m.REPORT]
    assert [len(message[2].get("objects", ())) for message in sent[:-1]] == [4, 0, 4, 2]
    assert tuple(sent[-1]) == (m.SURVEY_END, b"key")
