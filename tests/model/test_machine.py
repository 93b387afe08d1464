"""A node against a small, obviously right model of what users are promised, after every step of random stories.

The model knows no messages and no workers. It says for each call what must have become of it by now, once nothing moves any
more: its value, the name of its error, or, only where something holds it up, nothing yet.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skate.client.actor.actor_hold import ActorHold
from skate.simulation import Cluster, Spec
from skate.simulation.processes.frame import Frame, Ref
from skate.simulation.processes.process import Process
from skate.simulation.programs.spec import CPU, method

PENDING = "pending"
DIED = "ActorDiedError"
REMOVED = "TaskPlacementGroupRemoved"


class Call:
    """One task or method call: what it does, what it takes, what became of it."""

    def __init__(self, name: str, does: str, takes: list[Call], retries: int = 0) -> None:
        self.name = name
        self.does = does  # "value", "gate", "child": as a gate, with a task of its own; "fail": n times; "crash": n times
        self.takes = takes
        self.retries = retries
        self.times = 0  # how often it fails
        self.actor: Being | None = None
        self.group: Group | None = None
        self.open = False
        self.outcome = PENDING
        self.parent: Call | None = None
        self.ref: Ref | None = None

    def let_go(self) -> None:
        self.ref = None

    @property
    def gated(self) -> bool:
        return self.does in ("gate", "child") and not self.open

    @property
    def informed(self) -> bool:
        """True if all its arguments have an outcome."""
        return all(other.outcome != PENDING for other in self.takes)

    @property
    def ready(self) -> bool:
        return all(other.outcome == "ok" for other in self.takes)

    def own_end(self) -> str:
        """Its own outcome, given all its arguments."""
        if self.times > self.retries:
            return "RayTaskError" if self.does == "fail" else "WorkerCrashedError"
        return "ok"


class Being:
    """An actor: its calls in order, and how often it may come back."""

    def __init__(self, restarts: int, name: str) -> None:
        self.calls: list[Call] = []
        self.restarts = restarts
        self.name = name
        self.hold: ActorHold | None = None
        self.wanted = True
        self.dead = False

    def let_go(self) -> None:
        self.hold = None

    def die(self) -> None:
        self.dead = True
        for call in self.calls:
            if call.outcome == PENDING:
                call.outcome = DIED
        self.calls.clear()

    def crash(self) -> None:
        """Its process is lost: what had begun fails, the rest continues after a restart."""
        if not self.restarts:
            self.die()
            return
        self.restarts -= 1
        running = self.calls[0] if self.calls and self.calls[0].ready else None
        if running is not None:
            running.outcome = "ActorUnavailableError"


class Group:
    """A placement group of one bundle."""

    def __init__(self, group_id: bytes, cpus: int) -> None:
        self.group_id = group_id
        self.cpus = cpus
        self.removed = False


class NodeMachine(RuleBasedStateMachine):
    """Stories of one driver."""

    @initialize(seed=st.integers(0, 1 << 16), cpus=st.integers(1, 3))
    def begin(self, seed: int, cpus: int) -> None:
        self.cluster = Cluster(random.Random(seed), cpus)
        self.driver: Process = self.cluster.driver()
        self.cpus = cpus
        self.calls: list[Call] = []
        self.beings: list[Being] = []
        self.groups: list[Group] = []
        self.count = 0

    # -- the real thing

    def do(
        self, operation: tuple[Any, ...], refs: Any = (), hold: ActorHold | None = None
    ) -> tuple[Any, Frame]:
        """Run an operation of the driver to its end: its result, and the frame with what it made at the end of its lists."""
        frame = Frame()
        frame.refs = list(refs)
        frame.holds = [hold] if hold is not None else []
        results: list[Any] = []

        def thread() -> Any:
            results.append((yield from self.driver.perform(operation, frame, b"")))

        self.driver.thread = thread()
        self.cluster.settle()
        assert self.driver.thread is None
        return results[0], frame

    def label(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def submit(self, call: Call, spec: Spec) -> None:
        """Submit a call with the refs of what it takes as arguments."""
        refs = [other.ref for other in call.takes]
        places = tuple(range(len(refs)))
        if call.actor is not None:
            _, frame = self.do(("call", 0, spec, places), refs, call.actor.hold)
        else:
            _, frame = self.do(("submit", spec, places), refs)
        call.ref = frame.refs[-1]
        self.calls.append(call)

    def some(self, data: Any) -> list[Call]:
        """Calls whose results a new one takes."""
        known = [call for call in self.calls if call.ref is not None]
        if not known:
            return []
        return [known[i] for i in data.draw(st.lists(st.integers(0, len(known) - 1), max_size=2))]

    # -- tasks

    @rule(data=st.data(), does=st.sampled_from(["value", "value", "gate", "gate", "fail", "crash", "child"]),
          times=st.integers(1, 3), retries=st.integers(0, 2))  # fmt: skip
    def submit_task(self, data: Any, does: str, times: int, retries: int) -> None:
        call = Call(self.label(does), does, self.some(data), retries)
        open_groups = [group for group in self.groups if not group.removed]
        strategy = None
        if open_groups and does != "child" and data.draw(st.booleans()):
            call.group = open_groups[-1]
            strategy = ("bundle", call.group.group_id, -1, False)
        program: tuple[Any, ...] = ()
        if does in ("gate", "child"):
            program = (("gate", call.name),)
        if does == "child":
            child = Spec("inner", (("gate", call.name + "-child"),), returns=1)
            program = (("submit", child, (), ()), *program)
        if does in ("fail", "crash"):
            call.times = times
            program = (("fail", True, times),) if does == "fail" else (("crash", times),)
        self.submit(call, Spec(call.name, program, retries=retries, strategy=strategy))

    @precondition(lambda self: any(call.gated for call in self.calls))
    @rule(data=st.data())
    def open_gate(self, data: Any) -> None:
        call = data.draw(st.sampled_from([call for call in self.calls if call.gated]))
        call.open = True
        self.cluster.gates |= {call.name, call.name + "-child"}
        self.cluster.settle()

    @precondition(lambda self: any(call.actor is None for call in self.calls))
    @rule(data=st.data(), force=st.booleans())
    def cancel(self, data: Any, force: bool) -> None:
        call = data.draw(st.sampled_from([call for call in self.calls if call.actor is None]))
        self.do(("cancel", 0, force, True), [call.ref])
        if call.outcome == PENDING:
            call.outcome = "TaskCancelledError"

    @precondition(lambda self: any(call.outcome != PENDING for call in self.calls))
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        call = data.draw(st.sampled_from([call for call in self.calls if call.outcome != PENDING]))
        call.ref = None
        self.calls.remove(call)
        self.cluster.settle()

    # -- actors

    @rule(restarts=st.integers(0, 1), name=st.sampled_from(["", "", "a", "b"]))
    def create(self, restarts: int, name: str) -> None:
        taken = bool(name) and any(being.name == name and not being.dead for being in self.beings)
        being = Being(restarts, name)
        life = {
            "actor_name": name,
            "namespace": "",
            "max_restarts": restarts,
            "max_task_retries": 0,
            "concurrent": False,
        }
        _, frame = self.do(("create", Spec(self.label("Actor"), request={}), life))
        being.hold = frame.holds[-1]
        being.dead = taken
        self.beings.append(being)

    @precondition(lambda self: any(being.hold for being in self.beings))
    @rule(data=st.data(), does=st.sampled_from(["value", "value", "gate", "crash", "exit"]))
    def call(self, data: Any, does: str) -> None:
        being = data.draw(st.sampled_from([being for being in self.beings if being.hold]))
        call = Call(self.label(does), does, self.some(data))
        call.actor = being
        program = {
            "value": (),
            "gate": (("gate", call.name),),
            "crash": (("crash", 1),),
            "exit": (("exit",),),
        }[does]
        if being.dead:
            call.outcome = DIED
        being.calls.append(call)
        self.submit(call, method(call.name, program))

    @precondition(lambda self: any(being.hold for being in self.beings))
    @rule(data=st.data(), no_restart=st.booleans())
    def kill(self, data: Any, no_restart: bool) -> None:
        being = data.draw(st.sampled_from([being for being in self.beings if being.hold]))
        self.do(("kill", 0, no_restart), (), being.hold)
        if being.dead:
            return
        if no_restart:
            being.die()
        else:
            being.crash()

    @precondition(lambda self: any(being.hold for being in self.beings))
    @rule(data=st.data())
    def drop_handle(self, data: Any) -> None:
        being = data.draw(st.sampled_from([being for being in self.beings if being.hold]))
        being.hold = None
        being.wanted = False
        self.cluster.settle()

    # -- placement groups

    @rule(cpus=st.integers(1, 4))
    def make_group(self, cpus: int) -> None:
        group_id, _ = self.do(("group", ({"CPU": cpus * CPU},), "PACK"))
        if cpus <= self.cpus:
            self.groups.append(Group(group_id, cpus))
        else:
            assert self.cluster.core.placement.groups[group_id].state == "INFEASIBLE"

    @precondition(lambda self: any(not group.removed for group in self.groups))
    @rule(data=st.data())
    def remove_group(self, data: Any) -> None:
        group = data.draw(st.sampled_from([group for group in self.groups if not group.removed]))
        self.do(("request", "remove_group", group.group_id))
        group.removed = True
        for call in self.calls:
            if call.group is group and call.outcome == PENDING:
                call.outcome = REMOVED

    # -- what must be true now

    def advance(self) -> None:
        """Carry every consequence through the model until nothing changes."""
        before = None
        while before != [(call.outcome, call.open) for call in self.calls]:
            before = [(call.outcome, call.open) for call in self.calls]
            for call in self.calls:
                failed = [other.outcome for other in call.takes if other.outcome not in ("ok", PENDING)]
                if call.outcome == PENDING and failed and call.informed and not self.behind_another(call):
                    call.outcome = failed[0]
            for being in self.beings:
                self.serve(being)
            for call in self.calls:
                if call.actor is None and call.outcome == PENDING and call.ready and not call.gated:
                    if self.seen(call) != PENDING:  # it had its turn; whether it could is checked below
                        call.outcome = call.own_end()

    def behind_another(self, call: Call) -> bool:
        """True if an earlier call to the same actor still waits for its arguments."""
        if call.actor is None:
            return False
        calls = call.actor.calls
        return any(not earlier.informed for earlier in calls[: calls.index(call)])

    def serve(self, being: Being) -> None:
        """An actor takes its calls one by one."""
        while not being.dead:
            being.calls = [call for call in being.calls if call.outcome == PENDING]
            if not being.calls:
                if not being.wanted:
                    being.die()
                return
            call = being.calls[0]
            if not call.ready or call.gated:
                return
            if call.does == "exit":
                being.die()
            elif call.does == "crash":
                being.crash()
            else:
                call.outcome = "ok"
        being.die()

    def seen(self, call: Call) -> str:
        return self.cluster.observer.result(call.ref)

    @invariant()
    def every_call_is_where_the_model_says(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.advance()
        for call in self.calls:
            assert self.seen(call) == call.outcome, f"{call.name}: expected {call.outcome}"

    @invariant()
    def nothing_waits_that_could_run(self) -> None:
        if not hasattr(self, "cluster"):
            return
        core = self.cluster.core
        state = {group.group_id: core.placement.groups[group.group_id].state for group in self.groups}
        free = core.capacity.available["CPU"] // CPU
        for group in self.groups:
            assert group.removed == (state[group.group_id] == "REMOVED")
            if state[group.group_id] == "PENDING":
                assert free < group.cpus, f"{group.cpus} CPUs would fit into {free}, but the group waits"
        for call in self.calls:
            if call.outcome != PENDING or not call.ready or call.actor is not None or call.gated:
                continue
            if call.group is None:
                assert free < 1, f"{call.name} waits while {free} CPUs are free"
            elif state[call.group.group_id] == "CREATED":
                pool = core.scheduler.pools[(call.group.group_id, 0)]
                assert pool.available["CPU"] < CPU, f"{call.name} waits while its bundle is free"

    @invariant()
    def names_lead_to_their_actors(self) -> None:
        if not hasattr(self, "cluster"):
            return
        names = sorted(being.name for being in self.beings if being.name and not being.dead)
        assert sorted(name for _, name in self.cluster.core.actors.names) == names

    @invariant()
    def the_books_agree(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.reconcile()

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.cluster.gates |= {call.name + end for call in self.calls for end in ("", "-child")}
        self.cluster.settle()
        for thing in (*self.calls, *self.beings):  # which Hypothesis may hold as well
            thing.let_go()
        self.cluster.drain()


NodeMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestNode = NodeMachine.TestCase
TestNode.pytestmark = [pytest.mark.timeout(300)]
