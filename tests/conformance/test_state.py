"""Lists and summaries of `ray.util.state`. On Ray it asks the dashboard, which this suite does not start."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from ray.util.state import (
    StateApiClient,
    get_actor,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_cluster_events,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_tasks,
    list_workers,
    summarize_actors,
    summarize_objects,
    summarize_tasks,
)
from waiting import Gate, wait_for

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.timeout(120),
    pytest.mark.chosen_difference("the state API needs no dashboard", id="D-state-api"),
]


def held_task() -> Any:
    @ray.remote
    def held(started: Gate, release: Gate) -> int:
        started.open()
        release.wait()
        return os.getpid()

    return held


def keeper_class() -> Any:
    @ray.remote
    class Keeper:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def keep(self, inside: list[Any]) -> None:
            self.kept += inside

        def drop(self) -> None:
            self.kept.clear()

        def view(self, value: Any) -> None:
            self.kept.append(value)

        def pid(self) -> int:
            return os.getpid()

        def fail(self) -> None:
            raise KeyError("here")

    return Keeper


def kinds_of(ref: ray.ObjectRef) -> list[str]:
    return sorted(row.reference_type for row in get_objects(ref.hex()))


def test_a_task_is_followed_from_its_arguments_to_its_end(gate: Any) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote(name="after")
    def after(value: int) -> int:
        return value

    first = held_task().remote(started, release)
    second = after.remote(first)
    started.wait()
    assert get_task(first).state == "RUNNING"
    assert get_task(second).state == "PENDING_ARGS_AVAIL"
    [row] = list_tasks(filters=[("name", "=", "after"), ("state", "!=", "FINISHED")])
    assert row.task_id == second.task_id().hex() == row["task_id"] == row.get("task_id")
    assert (row.type, row.attempt_number, row.actor_id) == ("NORMAL_TASK", 0, None)
    release.open()
    pid = ray.get(second)
    done = get_task(second.task_id().hex())
    assert (done.state, done.error_type) == ("FINISHED", None)
    assert get_task(first).worker_pid == pid
    assert done.end_time_ms >= done.start_time_ms > 0
    assert done.required_resources == {"CPU": 1.0}


def test_a_failed_task_tells_why() -> None:
    @ray.remote(max_retries=0)
    def wrong() -> None:
        raise ValueError("the reason")

    @ray.remote(max_retries=0)
    def crash() -> None:
        os._exit(3)

    refs = [wrong.remote(), crash.remote()]
    for ref in refs:
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)
    failed, crashed = (get_task(ref) for ref in refs)
    assert (failed.state, failed.error_type) == ("FAILED", "TASK_EXECUTION_EXCEPTION")
    assert "the reason" in failed.error_message
    assert (crashed.state, crashed.error_type) == ("FAILED", "WORKER_DIED")
    assert any(row.worker_type == "WORKER" and not row.is_alive for row in list_workers())
    assert list_cluster_events()


def test_every_attempt_is_a_row(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(retry_exceptions=True)
    def second_time() -> int:
        if attempts.add() == 1:
            raise OSError("once")
        return attempts.count()

    ref = second_time.remote()
    assert ray.get(ref) == 2
    rows = get_task(ref)
    assert [(row.attempt_number, row.state) for row in rows] == [(0, "FAILED"), (1, "FINISHED")]


def test_a_cancelled_task_is_one_that_failed(gate: Any) -> None:
    started, release = gate("started"), gate("release")
    first = held_task().remote(started, release)

    @ray.remote
    def never(value: int) -> None:
        pass

    waiting = never.remote(first)
    started.wait()
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting)
    release.open()
    assert get_task(waiting).error_type == "TASK_CANCELLED"


def test_what_there_is_not_is_none() -> None:
    assert get_task("00" * 24) is None
    assert get_actor("00" * 16) is None
    assert get_node("00" * 28) is None
    assert get_worker("11" * 28) is None
    assert get_placement_group("00" * 18) is None
    assert get_objects("00" * 28) == []


def test_an_actor_is_followed_to_its_death() -> None:
    actor = keeper_class().options(name="kept", num_cpus=0.5).remote()
    pid = ray.get(actor.pid.remote())
    [row] = list_actors(filters=[("name", "=", "kept"), ("state", "=", "ALIVE")], detail=True)
    assert (row.class_name.rpartition(".")[2], row.pid, row.num_restarts) == ("Keeper", pid, 0)
    assert row.required_resources == {"CPU": 0.5}
    assert row.node_id == ray.get_runtime_context().get_node_id()
    call = actor.fail.remote()
    with pytest.raises(KeyError):
        ray.get(call)
    call_state = get_task(call)
    assert (call_state.type, call_state.actor_id, call_state.func_or_class_name) == (
        "ACTOR_TASK",
        row.actor_id,
        "Keeper.fail",
    )
    creation = list_tasks(filters=[("type", "=", "ACTOR_CREATION_TASK"), ("actor_id", "=", row.actor_id)])
    assert [each.state for each in creation] == ["FINISHED"]
    ray.kill(actor)
    wait_for(lambda: get_actor(row.actor_id).state == "DEAD", what="the actor's death")
    cause = get_actor(row.actor_id).death_cause["actor_died_error_context"]
    assert "ray.kill" in cause["error_message"]
    assert (cause["reason"], cause["actor_id"], cause["class_name"]) == (
        "RAY_KILL",
        row.actor_id,
        row.class_name,
    )


def test_a_ref_that_never_left_its_process_is_found() -> None:
    ref = ray.put("small")
    [row] = list_objects(filters=[("object_id", "=", ref.hex())])
    assert (row.reference_type, row.type, row.pid) == ("LOCAL_REFERENCE", "DRIVER", os.getpid())
    assert row.object_size > 0
    name = ref.hex()
    del ref
    assert get_objects(name) == []


def test_objects_name_all_that_keeps_them(gate: Any) -> None:
    started, release = gate("started"), gate("release")
    keeper = keeper_class().remote()
    pid = ray.get(keeper.pid.remote())
    ref = ray.put(np.zeros(100_000))
    assert kinds_of(ref) == ["LOCAL_REFERENCE"]
    [row] = list_objects(filters=[("object_id", "=", ref.hex())], detail=True)
    assert row.object_size >= 800_000
    assert row.location == "arena"
    assert __file__ in row.call_site

    view = ray.get(ref)
    assert kinds_of(ref) == ["LOCAL_REFERENCE", "PINNED_IN_MEMORY"]
    del view
    outer = ray.put([ref])
    assert kinds_of(ref) == ["CAPTURED_IN_OBJECT", "LOCAL_REFERENCE"]
    del outer
    wait_for(lambda: kinds_of(ref) == ["LOCAL_REFERENCE"], what="the outer value to go")

    ray.get(keeper.keep.remote([ref]))
    assert sorted((row.type, row.pid) for row in get_objects(ref.hex())) == [
        ("DRIVER", os.getpid()),
        ("WORKER", pid),
    ]
    ray.get(keeper.drop.remote())
    wait_for(lambda: kinds_of(ref) == ["LOCAL_REFERENCE"], what="the actor to let go")

    @ray.remote
    def both(first: Any, second: Any) -> None:
        pass

    pending = both.remote(ref, held_task().remote(started, release))
    assert kinds_of(ref) == ["LOCAL_REFERENCE", "USED_BY_PENDING_TASK"]
    release.open()
    ray.get(pending)
    wait_for(lambda: kinds_of(ref) == ["LOCAL_REFERENCE"], what="the task to let go")


def test_a_view_in_an_actor_keeps_what_nobody_else_does() -> None:
    keeper = keeper_class().remote()
    ref = ray.put(np.zeros(100_000))
    ray.get(keeper.view.remote(ref))
    name = ref.hex()
    del ref
    wait_for(
        lambda: [row.reference_type for row in get_objects(name)] == ["PINNED_IN_MEMORY"],
        what="only the view to be left",
    )
    ray.get(keeper.drop.remote())
    wait_for(lambda: get_objects(name) == [], what="the value to be freed")


def test_filters_and_limits() -> None:
    ref = ray.put(1)
    assert len(list_tasks(limit=1)) <= 1
    others = list_objects(filters=[("object_id", "!=", ref.hex())])
    assert ref.hex() not in [row.object_id for row in others]
    with pytest.raises(ValueError, match="<"):
        list_tasks(filters=[("name", "<", "f")])
    with pytest.raises(ValueError, match="10000|10,000"):
        list_tasks(limit=20_000)
    with pytest.raises(ray.util.state.exception.RayStateApiException, match="nonsense"):
        list_tasks(filters=[("nonsense", "=", "f")])
    assert list_nodes()[0].start_time_ms is None
    assert list_nodes(detail=True)[0].asdict()["state"] == "ALIVE"


def test_summaries_count() -> None:
    @ray.remote(name="counted")
    def counted() -> None:
        pass

    ray.get([counted.remote() for _ in range(3)])
    keeper = keeper_class().remote()
    ray.get(keeper.pid.remote())
    refs = [ray.put(np.zeros(100_000)) for _ in range(2)]
    tasks = summarize_tasks()["cluster"]["summary"]["counted"]
    assert tasks == {"func_or_class_name": "counted", "type": "NORMAL_TASK", "state_counts": {"FINISHED": 3}}
    actors = summarize_actors()["cluster"]["summary"]
    assert any(name.endswith("Keeper") and one["state_counts"]["ALIVE"] >= 1 for name, one in actors.items())
    objects = summarize_objects()["cluster"]
    assert objects["total_size_mb"] >= 1.5
    assert any(__file__ in site and one["total_objects"] >= 2 for site, one in objects["summary"].items())
    assert len(refs) == 2


def test_the_rest_of_the_cluster_is_listed() -> None:
    [node] = list_nodes(filters=[("state", "=", "ALIVE")])
    assert (node.node_id, node.is_head_node) == (ray.get_runtime_context().get_node_id(), True)
    assert node.resources_total["CPU"] == 2
    [job] = list_jobs()
    assert (job.job_id, job.status, job.type) == (ray.get_runtime_context().get_job_id(), "RUNNING", "DRIVER")
    [job] = list_jobs(detail=True)
    assert 0 < time.time() - job.start_time / 1000 < 24 * 3600
    drivers = list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert [row.pid for row in drivers] == [os.getpid()]
    group = placement_group([{"CPU": 1}], name="listed")
    ray.get(group.ready())
    [row] = list_placement_groups(filters=[("name", "=", "listed")], detail=True)
    assert (row.state, len(row.bundles)) == ("CREATED", 1)
    assert get_placement_group(row.placement_group_id).name == "listed"
    remove_placement_group(group)

    @ray.remote(runtime_env={"env_vars": {"LISTED": "1"}})
    def with_environment() -> str:
        return os.environ["LISTED"]

    assert ray.get(with_environment.remote()) == "1"
    assert any("LISTED" in str(row.runtime_env) for row in list_runtime_envs())


def test_tasks_ask_as_drivers_do() -> None:
    ref = ray.put("from the driver")

    @ray.remote
    def ask(name: str) -> tuple[int, list[str]]:
        return len(list_jobs()), [row.type for row in list_objects(filters=[("object_id", "=", name)])]

    assert ray.get(ask.remote(ref.hex())) == (1, ["DRIVER"])
    assert StateApiClient() is not None


@pytest.mark.parametrize("column", ["STATE", "State", "state"])
def test_filters_name_columns_in_any_case(column: str) -> None:
    @ray.remote
    def finishes() -> None: ...

    ray.get(finishes.remote())
    rows = wait_for(
        lambda: list_tasks(filters=[(column, "=", "FINISHED"), ("name", "=", "finishes")]),
        what="the task to be listed",
        timeout_s=30,
    )
    assert {row.state for row in rows} == {"FINISHED"}


def test_nested_functions_are_listed_by_their_own_name() -> None:
    @ray.remote
    def inner_of_a_test() -> None: ...

    ray.get(inner_of_a_test.remote())
    rows = wait_for(
        lambda: list_tasks(filters=[("func_or_class_name", "=", "inner_of_a_test")]),
        what="the task",
        timeout_s=30,
    )
    assert {row.name for row in rows} == {"inner_of_a_test"}


def test_a_task_in_detail_tells_when_it_ran() -> None:
    @ray.remote
    def runs_for_a_moment() -> None: ...

    ray.get(runs_for_a_moment.remote())
    (row,) = wait_for(
        lambda: list_tasks(
            filters=[("name", "=", "runs_for_a_moment"), ("state", "=", "FINISHED")], detail=True
        ),
        what="the task",
        timeout_s=30,
    )
    assert [each["state"] for each in row.events] == ["RUNNING", "FINISHED"]
    assert row.events[0]["created_ms"] <= row.events[1]["created_ms"]


@pytest.mark.parametrize(
    "name",
    [
        "get_log",
        "list_logs",
        "summarize_actors",
        "summarize_objects",
        "summarize_tasks",
        "StateApiClient",
        "list_actors",
        "get_task",
    ],
)
def test_the_api_module_has(name: str) -> None:
    from ray.experimental.state import api as older
    from ray.util.state import api

    assert getattr(api, name) is getattr(older, name, getattr(api, name))


class Leaver:
    """An actor that ends in several ways."""

    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def exit(self, code: int) -> None:
        sys.exit(code)


class Unmade:
    def __init__(self, path: Path) -> None:
        path.write_text(str(os.getpid()))
        raise ValueError("no")


def ended_worker(pid: int) -> Any:
    """Return the row of a worker, once its process has ended."""
    return wait_for(
        lambda: list_workers(detail=True, filters=[("pid", "=", pid), ("is_alive", "=", "False")]),
        what=f"the end of process {pid}",
        timeout_s=30,
    )[0]


def leaver() -> tuple[Any, int]:
    actor = ray.remote(num_cpus=0)(Leaver).remote()
    return actor, ray.get(actor.pid.remote())


def test_a_worker_has_the_type_of_its_exit_and_the_reason() -> None:
    actor, pid = leaver()
    (row,) = list_workers(detail=True, filters=[("pid", "=", pid)])
    assert (row.exit_type, row.exit_detail, row.end_time_ms) == (None, None, 0)
    assert 0 < row.start_time_ms <= time.time() * 1000

    for call, words in (("leave", "exit_actor"), ("exit", "exit code 0")):
        with pytest.raises(ray.exceptions.RayActorError, match=words):
            ray.get(getattr(actor, call).remote(*([0] if call == "exit" else [])))
        row = ended_worker(pid)
        assert row.exit_type == "INTENDED_USER_EXIT"
        assert words in row.exit_detail
        assert row.end_time_ms >= row.start_time_ms > 0
        actor, pid = leaver()

    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.exit.remote(4))
    row = ended_worker(pid)
    assert (row.exit_type, "exit code 4" in row.exit_detail) == ("SYSTEM_ERROR", True)

    actor, pid = leaver()
    os.kill(pid, signal.SIGKILL)
    row = ended_worker(pid)
    assert (row.exit_type, "OOM" in row.exit_detail) == ("SYSTEM_ERROR", True)

    actor, pid = leaver()
    ray.kill(actor)
    row = ended_worker(pid)
    assert (row.exit_type, "ray.kill" in row.exit_detail) == ("INTENDED_SYSTEM_EXIT", True)

    actor, pid = leaver()
    del actor
    row = ended_worker(pid)
    assert (row.exit_type, "out of scope" in row.exit_detail) == ("INTENDED_SYSTEM_EXIT", True)


def test_a_worker_ends_with_its_group_or_its_constructor(tmp_path: Path) -> None:
    group = placement_group([{"CPU": 1}])
    placed = ray.remote(num_cpus=1)(Leaver).options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(group)
    )
    actor = placed.remote()
    pid = ray.get(actor.pid.remote())
    remove_placement_group(group)
    row = ended_worker(pid)
    assert (row.exit_type, "placement group was removed" in row.exit_detail) == ("INTENDED_SYSTEM_EXIT", True)

    path = tmp_path / "pid"
    unmade = ray.remote(num_cpus=0)(Unmade).remote(path)
    wait_for(lambda: path.exists() and path.read_text(), what="the constructor")
    row = ended_worker(int(path.read_text()))
    assert (row.exit_type, "exception in the initialization method" in row.exit_detail) == (
        "USER_ERROR",
        True,
    )
    del unmade


def test_a_node_has_the_time_of_its_start() -> None:
    (node,) = list_nodes(detail=True)
    assert 0 < node.start_time_ms <= time.time() * 1000
    assert node.end_time_ms == 0
