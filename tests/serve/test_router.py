"""The router, with replicas that answer, die and start at random. The replicas' counter pages are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.protocol.messages import ERROR, INLINE, PENDING
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError, RequestCancelledError
from skate.serve.ingress.dispatcher import Dispatcher, Transfer
from skate.serve.routing import counter_page as counter_pages_module
from skate.serve.routing import router as routing
from skate.serve.routing.call import Call
from skate.serve.routing.counter_page import ONGOING, WAITING, CounterPage
from skate.serve.routing.router import Router
from skate.serve.routing.table import DeploymentEntry, ReplicaEntry, Route, Table

KEY = ("app", "d")


@pytest.fixture(autouse=True)
def no_thread_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test do the periodic work of a thread."""
    monkeypatch.setattr(routing, "retry_thread", SimpleNamespace(watch=lambda router: None))


class Ref:
    """A substitute for a response."""

    def __init__(self, replica: Replica, number: int) -> None:
        self.replica = replica
        self.number = number
        self._kind = PENDING
        self._value: Any = None
        self._site: Any = None
        self._ready: list[Callable[[], None]] = []

    def _on_ready(self, call: Callable[[], None]) -> None:
        self._ready.append(call)

    def _failure(self) -> Any:
        return self._value if self._kind == ERROR else None

    def _forgive(self) -> None:
        pass

    def settle(self, kind: int, value: Any) -> None:
        self._kind, self._value = kind, value
        for each in self._ready:
            each()


class Replica:
    """A replica that works on its calls until it dies."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.under_way: list[Ref] = []
        self.dead = False
        self._skate_id = name.encode()
        self.call = SimpleNamespace(remote=self._take)
        self.stream = self.call

    def _take(self, meta: Any, number: int) -> Ref:
        ref = Ref(self, number)
        self.world.sent.append(number)
        if self.dead:
            self.world.to_dead += 1
            self.world.failing.append(ref)  # the failure is reported later
        else:
            self.under_way.append(ref)
            assert len(self.under_way) <= self.world.limit, f"{self.name} has more than it may"
        return ref

    def die(self, begun: int) -> None:
        """Lose the calls it had begun; the others report that they had not begun."""
        self.dead = True
        refs, self.under_way = self.under_way, []
        for at, ref in enumerate(refs):
            self.world.end(ref, at < begun)


class World:
    """Replicas, and one router."""

    def __init__(self, limit: int, queue: int) -> None:
        self.limit = limit
        self.queue = queue
        self.router = Router(KEY, "node")
        self.replicas: list[Replica] = []
        self.calls: list[Call] = []
        self.sent: list[int] = []
        self.done: list[int] = []
        self.lost: list[int] = []
        self.failing: list[Ref] = []
        self.to_dead = 0
        self.renewed = 0
        self.made = 0

    def start(self) -> None:
        self.replicas.append(Replica(self, f"r{self.made}"))
        self.made += 1

    def publish(self, failed: str = "") -> None:
        living = [each for each in self.replicas if not each.dead]
        entries = tuple(ReplicaEntry(each.name, each, 0, -1, "node") for each in living)
        self.router.update(DeploymentEntry(entries, self.limit, self.queue, failed=failed))

    def submit(self) -> None:
        call = Call((f"id{len(self.calls)}", "__call__", "", "app", "", ""), (len(self.calls),), {}, False)
        self.calls.append(call)
        self.router.submit(call)

    def finish(self, ref: Ref) -> None:
        ref.replica.under_way.remove(ref)
        self.done.append(ref.number)
        ref.settle(INLINE, ref.number)

    def end(self, ref: Ref, begun: bool) -> None:
        if begun:
            self.lost.append(ref.number)
        else:
            self.renewed += 1
        fields = {"actor_id": ref.replica._skate_id} | ({} if begun else {"begun": False})
        ref.settle(ERROR, ("ActorDiedError", fields))

    def under_way(self) -> list[Ref]:
        return [ref for each in self.replicas for ref in each.under_way]

    def report_failures(self) -> None:
        while self.failing:
            self.end(self.failing.pop(0), False)


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "submit", "finish", "finish", "die", "start", "publish", "cancel", "look"]
        ),
        st.integers(0, 1000),
    ),
    max_size=80,
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=250)
@given(steps, st.integers(1, 3), st.sampled_from([-1, 0, 3]))
def test_no_request_is_lost_or_made_twice(what: list[tuple[str, int]], limit: int, queue: int) -> None:
    world = World(limit, queue)
    world.start()
    world.publish()
    for step, number in what:
        if step == "submit":
            world.submit()
        elif step == "finish" and world.under_way():
            world.finish(world.under_way()[number % len(world.under_way())])
        elif step == "die" and any(not each.dead for each in world.replicas):
            living = [each for each in world.replicas if not each.dead]
            living[number % len(living)].die(begun=number % (limit + 1))
        elif step == "start" and len(world.replicas) < 8:
            world.start()
        elif step == "publish":
            world.publish()
        elif step == "cancel" and world.calls:
            world.router.withdraw(world.calls[number % len(world.calls)])
        elif step == "look":
            world.router.send_waiting()
        world.report_failures()
        assert queue < 0 or len(world.router.waiting) <= queue + world.renewed
    # Finally a working replica exists, and receives all waiting calls.
    world.start()
    world.publish()
    while world.under_way():
        world.finish(world.under_way()[0])
        world.report_failures()
    assert not world.router.waiting
    done, lost = set(world.done), set(world.lost)
    assert len(done) == len(world.done) and not done & lost, "a request was answered twice"
    for number, call in enumerate(world.calls):
        assert call.settled
        if call.error is None:
            assert number in done or number in lost or call.cancelled
        elif isinstance(call.error, RequestCancelledError):
            assert call.cancelled and number not in done
        else:
            assert isinstance(call.error, BackPressureError) and queue >= 0
            assert number not in done


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 20))
def test_a_dead_replica_gets_one_request_at_most_for_each_that_is_told(
    replicas: int, limit: int, count: int
) -> None:
    """A replica that has ended looks idle. It must not receive all requests until the controller detects its end."""
    world = World(limit, -1)
    for _ in range(replicas):
        world.start()
    world.publish()
    world.replicas[0].die(begun=0)
    for _ in range(count):
        world.submit()
        world.report_failures()
        for ref in world.under_way()[:]:
            world.finish(ref)
    assert world.to_dead <= 1 and len(set(world.done)) == count


def test_the_order_of_those_that_wait() -> None:
    world = World(1, -1)
    world.start()
    world.publish()
    for _ in range(10):
        world.submit()
    while world.under_way():
        world.finish(world.under_way()[0])
    assert world.done == list(range(10))


def test_a_full_queue_says_how_many_wait() -> None:
    world = World(1, 2)
    world.start()
    world.publish()
    for _ in range(4):
        world.submit()
    error = world.calls[-1].error
    assert isinstance(error, BackPressureError) and "num_queued_requests=2" in str(error)


@pytest.mark.parametrize("deployment", [None, DeploymentEntry((), 1, -1, failed="no weights")])
def test_what_waits_is_answered_when_the_deployment_goes(deployment: DeploymentEntry | None) -> None:
    world = World(1, -1)
    world.publish()
    for _ in range(3):
        world.submit()
    world.router.update(deployment)
    assert all(isinstance(each.error, DeploymentUnavailableError) for each in world.calls)
    world.submit()
    assert isinstance(world.calls[-1].error, DeploymentUnavailableError)


def test_a_cancelled_request_is_not_sent_again() -> None:
    world = World(1, -1)
    world.start()
    world.publish()
    world.submit()
    world.router.withdraw(world.calls[0])
    world.replicas[0].die(begun=0)
    world.start()
    world.publish()
    assert world.sent == [0] and not world.under_way()


@pytest.fixture
def counter_pages() -> Iterator[Callable[[int], CounterPage]]:
    made: list[CounterPage] = []

    def make(load: int) -> CounterPage:
        counter_page = CounterPage()
        counter_page.cells[ONGOING] = load
        made.append(counter_page)
        return counter_page

    yield make
    for counter_page in made:
        counter_page.cells.release()
        counter_page._map.close()
        os.close(counter_page.fd)


def test_it_reads_the_real_queues_and_takes_the_shorter_of_two(
    counter_pages: Callable[[int], CounterPage],
) -> None:
    """The router sees requests of other routers, so the busiest replica is never chosen."""
    world = World(1000, -1)
    for _ in range(4):
        world.start()
    loads = [900, 10, 10, 10]
    shown = [counter_pages(load) for load in loads]
    entries = tuple(
        ReplicaEntry(each.name, each, os.getpid(), counter_page.fd, "node")
        for each, counter_page in zip(world.replicas, shown, strict=True)
    )
    world.router.update(DeploymentEntry(entries, 1000, -1))
    for _ in range(200):
        world.submit()
    counts = [len(each.under_way) for each in world.replicas]
    assert counts[0] == 0 and min(counts[1:]) > 30, counts
    # It becomes free, and is chosen immediately.
    shown[0].cells[ONGOING] = 0
    for _ in range(40):
        world.submit()
    assert len(world.replicas[0].under_way) > 10
    world.router.update(None)


def test_what_others_have_filled_is_left_alone(counter_pages: Callable[[int], CounterPage]) -> None:
    world = World(5, -1)
    world.start()
    counter_page = counter_pages(5)
    entries = (ReplicaEntry("r0", world.replicas[0], os.getpid(), counter_page.fd, "node"),)
    world.router.update(DeploymentEntry(entries, 5, -1))
    world.submit()
    assert not world.sent and len(world.router.waiting) == 1
    counter_page.cells[ONGOING] = 4
    world.router.send_waiting()
    assert world.sent == [0]
    world.router.update(None)


def test_it_has_a_turn_where_clients_over_http_wait(counter_pages: Callable[[int], CounterPage]) -> None:
    """They wait at the replica, and take each free place: a request of a handle must wait there with them, one at a time."""
    world = World(5, -1)
    world.start()
    counter_page = counter_pages(5)
    world.router.update(
        DeploymentEntry((ReplicaEntry("r0", world.replicas[0], os.getpid(), counter_page.fd, "node"),), 5, -1)
    )
    world.submit()
    world.submit()
    world.router.join_queue()
    assert not world.sent  # no request waits there, so a place will become free
    counter_page.cells[WAITING] = 1
    world.router.join_queue()
    world.router.join_queue()
    assert world.sent == [0] and len(world.router.waiting) == 1
    world.finish(world.under_way()[0])
    world.router.join_queue()
    assert world.sent == [0, 1]
    world.router.update(None)


@pytest.fixture
def stopped(
    counter_pages: Callable[[int], CounterPage], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int, CounterPage]]:
    """A stopped process with a counter page on which nothing is under way."""
    monkeypatch.setattr(counter_pages_module, "_STOPPED_KNOWN_SECONDS", 0)
    counter_page = counter_pages(0)
    code = "import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-S", "-c", code], pass_fds=[counter_page.fd]) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield process.pid, counter_page
        finally:
            process.kill()


def test_a_stopped_replica_gets_nothing_while_another_is_there(
    stopped: tuple[int, CounterPage], counter_pages: Callable[[int], CounterPage]
) -> None:
    """Its load seems to stay the lowest."""
    pid, counter_page = stopped
    world = World(10, -1)
    world.start()
    world.start()
    silent = ReplicaEntry("r0", world.replicas[0], pid, counter_page.fd, "node", models=("m",))
    world.router.update(
        DeploymentEntry(
            (silent, ReplicaEntry("r1", world.replicas[1], os.getpid(), counter_pages(3).fd, "node")), 10, -1
        )
    )
    model = Call(("id", "__call__", "", "app", "m", ""), (0,), {}, False)
    world.router.submit(model)
    for _ in range(12):
        world.submit()
    assert [len(each.under_way) for each in world.replicas] == [0, 10]
    assert len(world.router.waiting) == 3  # for the one that answers
    os.kill(pid, signal.SIGCONT)
    os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
    world.router.send_waiting()
    assert [len(each.under_way) for each in world.replicas] == [3, 10]
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    world.router.update(DeploymentEntry((silent,), 10, -1))
    world.submit()
    assert len(world.replicas[0].under_way) == 4  # there is no other
    world.router.update(None)


def test_a_stopped_replica_gets_no_connection_while_another_is_there(
    stopped: tuple[int, CounterPage], counter_pages: Callable[[int], CounterPage]
) -> None:
    """From another application's process, from a full sibling, and when a sibling ends."""
    pid, counter_page = stopped
    silent = ReplicaEntry("r0", None, pid, counter_page.fd, "node", mailbox=b"silent")
    answers = ReplicaEntry("r1", None, os.getpid(), counter_pages(3).fd, "node", mailbox=b"answers")
    table = Table(0, {("a", "A"): DeploymentEntry((silent, answers), 10, -1)}, (Route("a", "/", "A"),))
    for own in (("b", "B"), ("a", "A")):
        dispatcher = Dispatcher(own, "own", "node")
        dispatcher.full = lambda: True
        dispatcher.update(table)
        for _ in range(20):
            decision = dispatcher.decide("/")
            assert isinstance(decision, Transfer) and decision.mailboxes == (b"answers",)
        assert dispatcher.not_stopped([silent, answers]) == [answers] and dispatcher.not_stopped(
            [silent]
        ) == [silent]
        dispatcher.update(Table(1))


def test_a_model_goes_where_it_is(counter_pages: Callable[[int], CounterPage]) -> None:
    world = World(2, -1)
    for _ in range(3):
        world.start()
    entries = [ReplicaEntry(each.name, each, 0, -1, "node") for each in world.replicas]
    entries[1] = ReplicaEntry("r1", world.replicas[1], 0, -1, "node", models=("m",))
    world.router.update(DeploymentEntry(tuple(entries), 2, -1))

    def ask() -> None:
        world.calls.append(Call(("id", "__call__", "", "app", "m", ""), (len(world.calls),), {}, False))
        world.router.submit(world.calls[-1])

    ask()
    ask()
    assert [ref.replica.name for ref in world.under_way()] == ["r1", "r1"]
    ask()  # that replica is full, so another one loads the model
    assert len(world.under_way()) == 3 and len(world.replicas[1].under_way) == 2
