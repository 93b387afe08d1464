"""Gangs of replicas: the state machine by itself, and a real deployment with a killed replica."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve import test_machine_walk as walk
from serve.test_machine import KEY, World, app, target

import skate
from skate import serve
from skate.resources import Resources
from skate.serve.config.autoscaling import AutoscalingConfig
from skate.serve.context import GangContext
from skate.serve.controller.actions import Start, Stop
from skate.serve.controller.gang import gangs
from skate.serve.controller.records import wanted_of
from skate.serve.controller.states import ApplicationStatus, ReplicaState
from skate.serve.llm.data_parallel import meet
from skate.util.placement_group import placement_group_table
from tests.conformance.waiting import wait_for
from tests.serve.standing import free_port


def ganged(version: str = "1", size: int = 2, **config: Any) -> Any:
    return target(version, gang_scheduling_config={"gang_size": size}, **config)


def living(world: World) -> list[list[str]]:
    """The replicas that are not being stopped, by gang."""
    return [[one.id for one in unit] for unit in gangs.units(world.record.living())]


def test_whole_gangs_start() -> None:
    world = World()
    world.deploy(ganged(num_replicas=4))
    assert [type(each) for each in world.open] == [Start] * 4
    world.settle()
    assert world.status is ApplicationStatus.RUNNING
    first, second = gangs.units(world.record.living())
    for unit in (first, second):
        places = [one.gang for one in unit]
        assert [place.rank for place in places] == [0, 1] and {place.world_size for place in places} == {2}
        assert all(place.member_replica_ids == [one.id for one in unit] for place in places)
        assert len({place.gang_id for place in places}) == len({place.pg_name for place in places}) == 1
    assert first[0].gang.gang_id != second[0].gang.gang_id
    assert sorted(one.rank for one in world.record.living()) == [0, 1, 2, 3]


def test_a_lost_member_replaces_its_gang_at_once() -> None:
    world = World()
    world.deploy(ganged(num_replicas=4))
    world.settle()
    first, second = living(world)
    world.take(world.machine.lost(KEY, first[0], world.now))
    (stop,) = [each for each in world.open if isinstance(each, Stop)]
    assert stop.replica == first[1] and stop.grace_s == 0
    world.settle()
    world.take(world.machine.tick(world.now))
    world.settle()
    kept, new = living(world)
    assert kept == second and not set(new) & {*first, *second}
    assert world.status is ApplicationStatus.RUNNING


def test_a_member_that_fails_its_health_checks_takes_its_gang_along() -> None:
    world = World()
    world.deploy(ganged(num_replicas=2))
    world.settle()
    ((ill, other),) = living(world)
    for _ in range(3):
        world.take(world.machine.checked(KEY, ill, "ill", world.now))
    assert {each.replica for each in world.open if isinstance(each, Stop)} == {ill, other}
    world.settle()
    assert len(living(world)) == 1 and not {ill, other} & set(living(world)[0])


def test_a_start_that_fails_counts_once_for_its_gang() -> None:
    world = World()
    world.deploy(ganged(num_replicas=2, max_constructor_retry_count=2))
    world.do(how="raise")
    assert world.record.failures == 1 and not living(world)
    while world.open:  # the other member fails as well, or is stopped
        world.do(how="raise")
    assert world.record.failures == 1
    world.now += 100
    world.take(world.machine.tick(world.now))
    world.settle()
    assert world.status is ApplicationStatus.RUNNING and len(living(world)) == 1


def test_whole_gangs_leave_and_roll() -> None:
    world = World()
    world.deploy(ganged(num_replicas=6))
    world.settle()
    world.take(world.machine.scale(KEY, 3, world.now, "load"))
    assert world.record.want == 4, "rounded up to whole gangs"
    world.settle()
    assert [len(unit) for unit in living(world)] == [2, 2]
    world.machine.free = Resources({"CPU": 1.0})  # no room for another gang
    world.deploy(ganged("2", num_replicas=4))
    assert [type(each) for each in world.open] == [Stop] * 2
    while any(one.version == "1" for one in world.record.replicas.values()):
        world.machine.free = Resources({"CPU": float(4 - len(world.record.replicas))})
        world.take(world.machine.tick(world.now))
        world.settle()
        assert len(world.record.serving()) >= 2
    world.settle()
    assert {one.version for one in world.record.living()} == {"2"}


def test_numbers_of_replicas_are_whole_gangs() -> None:
    config = ganged(size=3, num_replicas=6).config
    assert [wanted_of(config, capacity) for capacity in (None, 50, 10, 0)] == [6, 3, 3, 0]
    scaling = AutoscalingConfig(min_replicas=3, max_replicas=7, initial_replicas=4)
    config = ganged(size=3, autoscaling_config=scaling).config
    assert [wanted_of(config, None), wanted_of(config, None, 7)] == [6, 6]


class GangWorld(walk.World):
    """Deploys gangs of `size` replicas."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__()

    def allow(self, want: int, share: float) -> None:
        existing = 0 if self.record is None else len(self.record.living())
        want = math.ceil(want / self.size) * self.size
        self.most = max(existing, want) + max(self.size, math.floor(share * want))

    def deploy(self, version: str, want: int, to_configure: Any, share: float = 0.2) -> None:
        self.allow(want, share)
        config = {"num_replicas": want, "user_config": to_configure, "rolling_update_percentage": share}
        self.take(self.machine.deploy(app(), [ganged(version, self.size, **config)], self.now))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(walk.kinds, st.integers(0, 1000)), max_size=50),
    st.integers(2, 3),
    st.sampled_from([0.2, 1.0]),
    st.booleans(),
)
def test_no_gang_is_ever_torn(steps: list[tuple[str, int]], size: int, share: float, cramped: bool) -> None:
    """`Machine.check` looks after each event."""
    world = GangWorld(size)
    world.deploy("v0", size, None, share)
    for what, number in steps:
        world.now += 1
        world.machine.free = Resources({"CPU": float(max(0, 6 - len(world.living)))}) if cramped else None
        if what == "deploy":
            world.deploy(f"v{number % 3}", size * (1 + number % 3), {"n": number % 2}, share)
        elif what in ("do", "crash", "raise") and world.open:
            world.do(number % len(world.open), {"do": "well"}.get(what, what))
        elif what == "lose":
            world.lose(number)
        elif what == "tick":
            world.take(world.machine.tick(world.now))
        elif what == "scale" and world.record is not None and not world.record.deleting:
            world.allow(1 + number % 5, share)
            world.take(world.machine.scale(KEY, 1 + number % 5, world.now, "load"))
        elif what == "delete":
            world.take(world.machine.delete("app", world.now))
        elif what == "restart":
            world.restart(number % 2, number)
    world.machine.free = None
    world.deploy("last", 2 * size, {"n": "last"}, share)
    world.settle()
    states = {one.state for one in world.record.replicas.values()}
    assert states == {ReplicaState.RUNNING} and set(world.record.replicas) == set(world.living)
    assert [len(unit) for unit in gangs.units(world.record.living())] == [size, size]
    assert world.machine.status_of(world.machine.apps["app"]) is ApplicationStatus.RUNNING


# -- a real deployment


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": free_port()})
    yield
    serve.shutdown()
    skate.shutdown()


def test_the_ranks_of_a_data_parallel_gang_meet(session: None) -> None:
    async def ranks(gang: str) -> list[tuple[str, int]]:
        places = [GangContext(gang, rank, 3, ["a", "b", "c"]) for rank in (1, 2, 0)]
        return await asyncio.gather(*map(meet, places))

    first, second = asyncio.run(ranks("first")), asyncio.run(ranks("second"))
    assert len(set(first)) == len(set(second)) == 1 and first[0] != second[0]


def groups() -> list[dict[str, Any]]:
    found = placement_group_table().values()
    return [each for each in found if each["state"] != "REMOVED"]


def test_a_killed_replica_takes_its_gang_along(session: None) -> None:
    @serve.deployment(
        num_replicas=4,
        gang_scheduling_config={"gang_size": 2, "gang_placement_strategy": "SPREAD"},
        ray_actor_options={"num_cpus": 0.5},
    )
    class Member:
        def __call__(self) -> Any:
            context = serve.get_replica_context()
            return context.gang_context, context.replica_tag, os.getpid()

    handle = serve.run(Member.bind(), name="ganged", route_prefix=None)

    def members() -> dict[str, Any]:
        """Every replica by its id, or nothing while one is missing."""
        answers = [handle.remote() for _ in range(16)]
        found = {answer[1]: answer for answer in (each.result(timeout_s=30) for each in answers)}
        return found if len(found) == 4 else {}

    before = wait_for(members, 60, "answers of all replicas")
    assert sorted(gang.rank for gang, _, _ in before.values()) == [0, 0, 1, 1]
    for gang, tag, _ in before.values():
        assert gang.world_size == 2 and gang.member_replica_ids[gang.rank] == tag
    names = {gang.pg_name for gang, _, _ in before.values()}
    assert {each["name"] for each in groups()} == names and len(names) == 2
    assert all(each["bundles"] == {0: {"CPU": 0.5}, 1: {"CPU": 0.5}} for each in groups())
    assert {each["strategy"] for each in groups()} == {"SPREAD"}

    gang, _, pid = next(iter(before.values()))
    os.kill(pid, signal.SIGKILL)
    torn = set(gang.member_replica_ids)

    def replaced() -> dict[str, Any]:
        try:
            found = members()
        except skate.exceptions.RayError:  # a request was with a replica that ended
            return {}
        return {} if torn & set(found) else found

    after = wait_for(replaced, 60, "another gang")
    assert len(set(before) & set(after)) == 2, "the other gang stays"
    wait_for(lambda: len(groups()) == 2 and gang.pg_name not in {each["name"] for each in groups()}, 30)
    serve.delete("ganged")
    wait_for(lambda: not groups(), 30, "the end of the groups")
