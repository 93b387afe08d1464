"""The controller's state machine, with replicas that start, fail and end at random."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.resources import Resources
from skate.serve.config import DeploymentConfig
from skate.serve.controller.actions import Check, Configure, Start, Stop
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import ApplicationRecord, Target
from skate.serve.controller.states import ApplicationStatus, DeploymentStatus, ReplicaState

KEY = ("app", "d")


def target(version: str = "1", **config: Any) -> Target:
    actor = {"ray_actor_options": {"num_cpus": 1}}
    return Target("d", version, DeploymentConfig(**config), actor, True, False, (), None)


def app() -> ApplicationRecord:
    return ApplicationRecord("app", "/", "d", {}, 0.0)


class World:
    """Carries out the machine's actions when the test requests it."""

    def __init__(self) -> None:
        self.machine = Machine("r")
        self.now = 0.0
        self.open: list[Any] = []
        self.least = 0

    def take(self, actions: list[Any]) -> None:
        self.open += actions
        self.machine.check()

    def deploy(self, wanted: Target) -> None:
        self.take(self.machine.deploy(app(), [wanted], self.now))

    def do(self, at: int = 0, how: str = "well") -> None:
        action = self.open.pop(at)
        key, name = action.key, action.replica
        if isinstance(action, Start):
            if how == "well":
                self.take(self.machine.ready(key, name, {}, self.now))
            else:
                self.take(self.machine.failed(key, name, "no", how == "crash", self.now))
        elif isinstance(action, Configure):
            self.take(self.machine.configured(key, name, None, self.now))
        elif isinstance(action, Stop):
            self.take(self.machine.stopped(key, name, self.now))
        else:
            assert isinstance(action, Check)
            self.take(self.machine.checked(key, name, None if how == "well" else "ill", self.now))

    def settle(self) -> None:
        for _ in range(1000):
            if not self.open:
                return
            self.do()
        raise AssertionError(f"it never comes to rest: {self.machine!r}")

    @property
    def record(self) -> Any:
        found = self.machine.record(KEY)
        assert found is not None
        return found

    @property
    def status(self) -> ApplicationStatus:
        return self.machine.status_of(self.machine.apps["app"])


def test_it_starts_what_is_wanted() -> None:
    world = World()
    world.deploy(target(num_replicas=3))
    assert [type(each) for each in world.open] == [Start] * 3
    assert world.status is ApplicationStatus.DEPLOYING
    world.settle()
    assert world.status is ApplicationStatus.RUNNING
    assert sorted(one.rank for one in world.record.living()) == [0, 1, 2]


def test_a_constructor_that_raises_fails_the_application_at_once() -> None:
    world = World()
    world.deploy(target())
    world.do(how="raise")
    assert world.status is ApplicationStatus.DEPLOY_FAILED and not world.open


def test_a_process_that_dies_while_starting_is_tried_again() -> None:
    world = World()
    world.deploy(target())
    world.do(how="crash")
    assert world.status is ApplicationStatus.DEPLOYING
    world.now += 5
    world.take(world.machine.tick(world.now))
    world.settle()
    assert world.status is ApplicationStatus.RUNNING


def test_user_config_alone_is_told_in_place() -> None:
    world = World()
    world.deploy(target(num_replicas=2))
    world.settle()
    names = set(world.record.replicas)
    world.deploy(target(num_replicas=2, user_config={"a": 1}))
    assert [type(each) for each in world.open] == [Configure] * 2
    world.settle()
    assert set(world.record.replicas) == names and world.status is ApplicationStatus.RUNNING


def test_the_same_again_changes_nothing() -> None:
    world = World()
    world.deploy(target(num_replicas=2))
    world.settle()
    world.deploy(target(num_replicas=2))
    assert not world.open and world.status is ApplicationStatus.RUNNING


def test_without_room_the_old_one_goes_first() -> None:
    world = World()
    world.deploy(target("1"))
    world.settle()
    world.machine.free = Resources({"CPU": 0.0})
    world.deploy(target("2"))
    assert [type(each) for each in world.open] == [Stop]
    world.machine.free = Resources({"CPU": 1.0})
    world.do()
    assert [type(each) for each in world.open] == [Start]
    world.settle()
    assert world.status is ApplicationStatus.RUNNING


def test_three_failed_checks_replace_a_replica() -> None:
    world = World()
    world.deploy(target())
    world.settle()
    first = next(iter(world.record.replicas))
    for _ in range(3):
        world.now += 20
        world.take(world.machine.tick(world.now))
        world.do(how="ill")
    assert world.record.status is DeploymentStatus.UNHEALTHY
    world.settle()
    assert first not in world.record.replicas and world.status is ApplicationStatus.RUNNING


def test_deleted_means_gone() -> None:
    world = World()
    world.deploy(target(num_replicas=2))
    world.settle()
    world.take(world.machine.delete("app", 1.0))
    world.settle()
    assert not world.machine.apps


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(
    old=st.integers(1, 6),
    new=st.integers(1, 6),
    share=st.sampled_from([0.2, 0.5, 1.0]),
    order=st.lists(st.integers(0, 100), max_size=60),
)
def test_a_rolling_update_with_room_never_serves_with_fewer(
    old: int, new: int, share: float, order: list[int]
) -> None:
    world = World()
    world.deploy(target("1", num_replicas=old, rolling_update_percentage=share))
    world.settle()
    world.deploy(target("2", num_replicas=new, rolling_update_percentage=share))
    least = min(old, new)
    for at in order:
        if not world.open:
            break
        world.do(at % len(world.open))
        assert len(world.record.serving()) >= least, repr(world.machine)
        assert len(world.record.living()) <= max(old, new) + max(1, int(share * new)) + 1
    world.settle()
    assert {one.version for one in world.record.replicas.values()} == {"2"}
    assert len(world.record.replicas) == new and world.status is ApplicationStatus.RUNNING


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["deploy", "do", "crash", "lose", "tick", "scale", "delete"]), st.integers(0, 100)
        ),
        max_size=60,
    )
)
def test_whatever_happens_it_comes_to_rest_where_it_is_wanted(steps: list[tuple[str, int]]) -> None:
    world = World()
    world.deploy(target("0", num_replicas=2))
    for what, number in steps:
        world.now += 1
        if what == "deploy":
            world.deploy(target(str(number % 3), num_replicas=1 + number % 4))
        elif what in ("do", "crash") and world.open:
            world.do(number % len(world.open), "well" if what == "do" else "crash")
        elif what == "lose" and world.machine.record(KEY) and world.record.serving():
            one = world.record.serving()[number % len(world.record.serving())]
            world.take(world.machine.lost(KEY, one.id, world.now))
        elif what == "tick":
            world.take(world.machine.tick(world.now))
        elif what == "scale" and world.machine.record(KEY):
            world.take(world.machine.scale(KEY, 1 + number % 5, world.now))
        elif what == "delete":
            world.take(world.machine.delete("app", world.now))
    world.deploy(target("last", num_replicas=3))
    for _ in range(30):
        world.settle()
        world.now += 100
        world.take(world.machine.tick(world.now))
        world.settle()
    states = {one.state for one in world.record.replicas.values()}
    assert states == {ReplicaState.RUNNING} and len(world.record.replicas) == 3
    assert {one.version for one in world.record.replicas.values()} == {"last"}
    assert world.status is ApplicationStatus.RUNNING


def test_replicas_of_a_draining_node_are_replaced_before_they_end() -> None:
    world = World()
    world.deploy(target(num_replicas=2))
    for node in ("one", "two"):
        start = world.open.pop(0)
        world.take(world.machine.ready(start.key, start.replica, {"node": node}, world.now))
    record = world.machine.record(KEY)
    assert record is not None and not world.open
    leaving = next(one.id for one in record.replicas.values() if one.info["node"] == "two")

    # As long as there is no room elsewhere, it stays.
    world.machine.free = Resources({})
    world.take(world.machine.drain(frozenset({"two"}), world.now))
    world.take(world.machine.tick(world.now))
    assert [action for action in world.open if not isinstance(action, Check)] == []

    world.machine.free = None
    world.take(world.machine.tick(world.now))
    (start,) = [action for action in world.open if not isinstance(action, Check)]
    assert isinstance(start, Start) and len(record.serving()) == 2
    world.take(world.machine.ready(start.key, start.replica, {"node": "one"}, world.now))
    (stop,) = [action for action in world.open if isinstance(action, Stop)]
    assert stop.replica == leaving
    world.take(world.machine.stopped(stop.key, stop.replica, world.now))
    assert sorted(one.info["node"] for one in record.serving()) == ["one", "one"]
    assert not any(isinstance(action, Start) for action in world.machine.drain(frozenset(), world.now))
