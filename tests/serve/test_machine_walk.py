"""The controller's state machine, compared with a simple model of the processes and their last messages.

The controller may die at any moment. Its successor starts from the last published state, which may be slightly out of date.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.test_machine import KEY, app, target

from skate.resources import Resources
from skate.serve.controller.actions import Check, Configure, Start, Stop
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import STARTING
from skate.serve.controller.route_publisher import table_of
from skate.serve.controller.states import ApplicationStatus, ReplicaState
from skate.serve.routing.table import Table


class World:
    """Processes that carry out the machine's actions when the test requests it."""

    def __init__(self) -> None:
        self.machine = Machine("s")
        self.restarts = 0
        self.now = 0.0
        self.open: list[Any] = []
        #: Living processes: the version and the user_config that each has.
        self.living: dict[str, tuple[str, Any]] = {}
        self.ended: set[str] = set()
        self.memories: deque[bytes] = deque(maxlen=3)
        self.most = 0
        self.take([])

    @property
    def record(self) -> Any:
        return self.machine.record(KEY)

    def take(self, actions: list[Any]) -> None:
        self.open += actions
        self.machine.check()
        self.memories.append(pickle.dumps(self.machine))
        places = table_of(self.machine, Table(), dict.fromkeys(self.living, object())).deployments.get(KEY)
        for place in () if places is None else places.entries:
            assert place.replica not in self.ended, f"{place.replica} is routed to, and has ended"
        if self.record is not None:
            assert len(self.record.living()) <= self.most, f"more than {self.most}: {self.machine!r}"

    def allow(self, want: int, share: float) -> None:
        """Set the permitted number of replicas: the current or the target number, and a few more during an update."""
        existing = 0 if self.record is None else len(self.record.living())
        self.most = max(existing, want) + max(1, math.floor(share * want))

    def deploy(self, version: str, want: int, to_configure: Any, share: float = 0.2) -> None:
        self.allow(want, share)
        config = {"num_replicas": want, "user_config": to_configure, "rolling_update_percentage": share}
        self.take(self.machine.deploy(app(), [target(version, **config)], self.now))

    def do(self, at: int, how: str = "well") -> None:
        action = self.open.pop(at)
        name = action.replica
        one = None if self.record is None else self.record.replicas.get(name)
        if isinstance(action, Start):
            if one is None:
                return
            if how != "well":
                self.take(self.machine.failed(KEY, name, "no", how == "crash", self.now))
                return
            assert one.config is not None
            self.living[name] = (one.version, one.config.user_config)
            if one.state is STARTING:
                self.take(self.machine.ready(KEY, name, {}, self.now))
        elif isinstance(action, Configure):
            if name in self.living:
                self.living[name] = (self.living[name][0], action.config.user_config)
                self.take(self.machine.configured(KEY, name, None, self.now))
        elif isinstance(action, Stop):
            self.end(name)
            self.take(self.machine.stopped(KEY, name, self.now))
        elif name in self.living:
            assert isinstance(action, Check)
            self.take(self.machine.checked(KEY, name, None if how == "well" else "ill", self.now))

    def end(self, name: str) -> None:
        self.living.pop(name, None)
        self.ended.add(name)

    def lose(self, number: int) -> None:
        """Kill a process, and notify the controller."""
        if self.living:
            name = sorted(self.living)[number % len(self.living)]
            self.end(name)
            self.take(self.machine.lost(KEY, name, self.now))

    def restart(self, age: int, dies: int) -> None:
        """Replace the controller, and possibly kill a replica; the new one does the same as `ServeController.remember`."""
        self.open.clear()
        if dies % 3 == 0 and self.living:
            self.end(sorted(self.living)[dies % len(self.living)])
        self.machine = pickle.loads(self.memories[-1 - age % len(self.memories)])
        self.restarts += 1
        self.machine.seed = f"s{self.restarts}-"
        known = {one.id for record in self.machine.each() for one in record.replicas.values()}
        for name in [name for name in self.living if name not in known]:
            self.end(name)  # the new controller would not find it
        for record in self.machine.each():
            for name in [name for name in record.replicas if name not in self.living]:
                record.replicas.pop(name)
        self.allow(0 if self.record is None else self.record.want, 1.0)
        self.take(self.machine.restored(self.now))

    def settle(self) -> None:
        for _ in range(50):
            while self.open:
                self.do(0)
            self.now += 100
            self.take(self.machine.tick(self.now))
            if not self.open:
                return
            if all(isinstance(each, Check) for each in self.open):
                while self.open:
                    self.do(0)
                if not self.open:
                    return
        raise AssertionError(f"it never comes to rest: {self.machine!r}")


kinds = st.sampled_from(
    [
        "deploy",
        "deploy",
        "do",
        "do",
        "do",
        "do",
        "crash",
        "raise",
        "lose",
        "tick",
        "scale",
        "delete",
        "restart",
    ]
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(kinds, st.integers(0, 1000)), max_size=70),
    st.sampled_from([0.2, 0.5, 1.0]),
    st.booleans(),
)
def test_it_comes_to_what_is_wanted_whatever_happens(
    steps: list[tuple[str, int]], share: float, cramped: bool
) -> None:
    world = World()
    world.deploy("v0", 2, None, share)
    for what, number in steps:
        world.now += 1
        world.machine.free = Resources({"CPU": float(max(0, 4 - len(world.living)))}) if cramped else None
        if what == "deploy":
            world.deploy(f"v{number % 3}", 1 + number % 5, {"n": number % 2}, share)
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
    world.deploy("last", 3, {"n": "last"}, share)
    world.settle()
    # The target replicas run with the current settings, and no others live.
    states = {one.state for one in world.record.replicas.values()}
    assert states == {ReplicaState.RUNNING} and set(world.record.replicas) == set(world.living)
    assert list(world.living.values()) == [("last", {"n": "last"})] * 3, world.living
    assert world.machine.status_of(world.machine.apps["app"]) is ApplicationStatus.RUNNING
    world.take(world.machine.delete("app", world.now))
    world.settle()
    assert not world.living and not world.machine.apps


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150, deadline=None)
@given(
    st.integers(1, 8),
    st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    st.integers(0, 2),
    st.lists(st.integers(0, 100), max_size=80),
)
def test_a_rolling_update_keeps_the_promised_share(
    count: int, share: float, spare: int, order: list[int]
) -> None:
    """With room for `spare` further replicas, and outdated figures of it, no more than the share is missing at any time."""
    world = World()
    world.deploy("old", count, None, share)
    world.settle()
    away = max(1, math.floor(share * count))

    def see() -> None:
        world.machine.free = Resources({"CPU": float(count + spare - len(world.record.replicas))})

    see()
    world.deploy("new", count, None, share)
    for at in order:
        see()
        world.now += 0.1
        world.take(world.machine.tick(world.now))
        if world.open:
            world.do(at % len(world.open))
        serving = len(world.record.serving())
        assert serving >= count - away, repr(world.machine)
    for _ in range(200):
        see()
        world.take(world.machine.tick(world.now))
        if world.open:
            world.do(0)
    assert {version for version, _ in world.living.values()} == {"new"} and len(world.living) == count
