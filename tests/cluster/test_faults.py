"""Scenes with faults of the network and of processes, for minutes; `make test-cluster` runs them."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import SLACK_S, ZYGOTE, Cluster, Driver, hold
from tests.cluster.namespaces import Network
from tests.conformance.waiting import wait_for

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

ALL = ("machine1", "machine2", "machine3", "machine4")
#: A node that is silent for this long is dead; the verdict takes up to a second more.
SILENCE_S, VERDICT_S = 5.0, 1.0
#: The same for the node of a program that reaches only the head.
CLIENT_SILENCE_S = 30.0
GIGABYTE = 1_000_000_000


def start(cluster: Cluster) -> Driver:
    """Start all nodes, and a counter on the third machine."""
    driver = cluster.up()
    driver.ask("counter = Counter.options(**on('machine3')).remote()")
    assert driver.ask("ray.get(counter.add.remote(1))") == "1"
    return driver


def start_movable(cluster: Cluster) -> Driver:
    """Start all nodes, and a counter on the third machine that restarts elsewhere."""
    driver = cluster.up()
    driver.ask("from skate.util import scheduling_strategies as s")
    driver.ask("third = next(node['NodeID'] for node in ray.nodes() if 'machine3' in node['Resources'])")
    driver.ask(
        "movable = Counter.options(num_cpus=1, max_restarts=1, max_task_retries=1, "
        "scheduling_strategy=s.NodeAffinitySchedulingStrategy(third, soft=True)).remote()"
    )
    assert driver.ask("ray.get(movable.where.remote())[0]") == "'machine3'"
    return driver


def works_everywhere(driver: Driver) -> None:
    """Run a task on each machine, and call an actor on each machine from all."""
    assert driver.ask(f"ray.get([where.options(**on(name)).remote() for name in {ALL}])") == repr(list(ALL))
    driver.ask(f"each = [Counter.options(**on(name)).remote() for name in {ALL}]")
    driver.ask(f"asked = [ask.options(**on(name)).remote(one) for one in each for name in {ALL}]")
    answers = eval(driver.ask("ray.get(asked)"))
    assert [name for name, _ in answers] == [*ALL] * len(ALL)
    # Each actor counts its four callers, in any order.
    assert sorted(count for _, count in answers) == sorted([1, 2, 3, 4] * len(ALL))
    driver.ask("del each, asked")


def resident_mb(pid: int) -> float:
    """Return the memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def nothing_has_happened(driver: Driver, reports: int) -> None:
    """Check that no machine was reported dead, and that the counter was not restarted."""
    count = int(driver.ask("ray.get(counter.add.remote(0))"))
    assert count >= 1 and driver.reports() == reports, driver.program.story()


def test_a_gigabyte_crosses(cluster: Cluster) -> None:
    driver = cluster.up(store=2_500_000_000)
    size = GIGABYTE // 8 * 8
    driver.ask(f"value = make.options(**on('machine2')).remote({size})")
    wanted = str((size // 8) * (size // 8 - 1) // 2)
    assert driver.ask("ray.get(total.options(**on('machine3')).remote(value))", 120) == wanted
    assert driver.ask("int(ray.get(value).sum())", 120) == wanted
    cluster.down(driver)


def test_a_cut_of_two_seconds_changes_nothing(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    cluster.network.cut(cluster.nodes[1])
    during = driver.submit("ray.get([counter.add.remote(1), work.options(**on('machine3')).remote(0.1)])")
    hold(2.0)
    cluster.network.heal(cluster.nodes[1])
    assert driver.answer(during) == "[2, 'machine3']"
    works_everywhere(driver)
    nothing_has_happened(driver, reports)
    cluster.down(driver)


def test_a_cut_of_ten_seconds_is_death(cluster: Cluster) -> None:
    driver = start_movable(cluster)
    third = cluster.nodes[1]
    begin = time.time()
    cluster.network.cut(third)
    lost = driver.submit("ray.get(work.options(resources={}).remote(0.1))")
    noticed = driver.alive("machine1", "machine2", "machine4") - begin
    # The cut node counts from its last beat that was acknowledged, so it has ended before the verdict.
    cluster.gone(third, SLACK_S)
    assert SILENCE_S - 1.5 <= noticed <= SILENCE_S + VERDICT_S + SLACK_S, f"noticed after {noticed:.2f} s"
    assert driver.answer(lost) != "'machine3'"
    assert driver.ask("ray.get(movable.where.remote())[0]") != "'machine3'"
    hold(max(0.0, begin + 10 - time.time()))
    cluster.network.heal(third)
    cluster.join(third).ok()
    driver.alive(*ALL)
    assert driver.ask("third in [node['NodeID'] for node in ray.nodes() if node['Alive']]") == "False"
    works_everywhere(driver)
    cluster.down(driver)


@pytest.mark.parametrize("direction", ["to", "from"])
def test_one_silent_direction_to_the_head_is_relayed(cluster: Cluster, direction: str) -> None:
    driver = start(cluster)
    reports = driver.reports()
    pair = (cluster.head, cluster.nodes[1])
    source, target = pair if direction == "from" else pair[::-1]
    cluster.network.silence(source, target)
    begin = time.time()
    assert driver.ask("ray.get(counter.add.remote(1))") == "2"
    assert time.time() - begin < 1.0 + SILENCE_S + SLACK_S
    hold(max(0.0, begin + 10 - time.time()))
    nothing_has_happened(driver, reports)
    cluster.network.unsilence(source, target)
    works_everywhere(driver)
    cluster.down(driver)


@pytest.mark.parametrize("direction", ["to", "from"])
def test_one_silent_direction_between_members_goes_on_through_the_head(
    cluster: Cluster, direction: str
) -> None:
    driver = start(cluster)
    reports = driver.reports()
    pair = cluster.nodes[:2]
    driver.ask("ask_it = ask.options(**on('machine2'))")
    assert driver.ask("ray.get(ask_it.remote(counter))") == "('machine2', 2)"
    source, target = pair if direction == "to" else pair[::-1]
    cluster.network.silence(source, target)
    begin = time.time()
    assert driver.ask("ray.get(ask_it.remote(counter))") == "('machine2', 3)"
    assert time.time() - begin < 1.0 + SILENCE_S + SLACK_S
    wanted = str(sum(range(1_000_000)))
    driver.ask("value = make.options(**on('machine3')).remote(8_000_000)")
    assert driver.ask("ray.get(total.options(**on('machine2')).remote(value))") == wanted
    hold(max(0.0, begin + 10 - time.time()))
    nothing_has_happened(driver, reports)
    cluster.network.unsilence(source, target)
    works_everywhere(driver)
    cluster.down(driver)


def test_a_cut_pair_goes_on_through_the_head(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    second, third = cluster.nodes[:2]
    driver.ask("ask_it = ask.options(**on('machine2'))")
    assert driver.ask("ray.get(ask_it.remote(counter))") == "('machine2', 2)"
    for source, target in ((second, third), (third, second)):
        cluster.network.silence(source, target)
    begin = time.time()
    assert driver.ask("ray.get(ask_it.remote(counter))") == "('machine2', 3)"
    assert time.time() - begin < 1.0 + SLACK_S
    wanted = str(sum(range(1_000_000)))
    driver.ask("value = make.options(**on('machine3')).remote(8_000_000)")
    assert driver.ask("ray.get(total.options(**on('machine2')).remote(value))") == wanted
    hold(max(0.0, begin + 8 - time.time()))
    nothing_has_happened(driver, reports)
    for source, target in ((second, third), (third, second)):
        cluster.network.unsilence(source, target)
    works_everywhere(driver)
    cluster.down(driver)


@pytest.mark.parametrize("begins", ["cut", "whole"])
def test_a_large_value_crosses_while_the_pair_is_cut(cluster: Cluster, begins: str) -> None:
    driver = cluster.up(store=3_500_000_000)
    reports = driver.reports()
    second, third = cluster.nodes[:2]
    size = 3 * GIGABYTE // 16 * 8  # more than fits into one frame
    driver.ask(f"value = make.options(**on('machine2')).remote({size})")
    driver.ask("ray.wait([value], fetch_local=False)", 60)
    if begins == "whole":
        reading = driver.submit("ray.get(total.options(**on('machine3')).remote(value))")
        hold(0.3)
    for source, target in ((second, third), (third, second)):
        cluster.network.silence(source, target)
    if begins == "cut":
        reading = driver.submit("ray.get(total.options(**on('machine3')).remote(value))")
    assert driver.answer(reading, 150) == str((size // 8) * (size // 8 - 1) // 2)
    assert driver.reports() == reports
    for source, target in ((second, third), (third, second)):
        cluster.network.unsilence(source, target)
    works_everywhere(driver)
    cluster.down(driver)


def test_a_node_stopped_for_two_seconds_goes_on(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    cluster.send(cluster.nodes[1], signal.SIGSTOP)
    during = driver.submit("ray.get(counter.add.remote(1))")
    hold(2.0)
    cluster.send(cluster.nodes[1], signal.SIGCONT)
    assert driver.answer(during) == "2"
    nothing_has_happened(driver, reports)
    cluster.down(driver)


def test_a_node_that_does_not_read_stops_only_who_sends_to_it(cluster: Cluster) -> None:
    driver = start(cluster)
    other = Driver(cluster.head)
    other.ask("near = Counter.options(**on('machine2')).remote()")
    assert other.ask("ray.get(near.add.remote(0))") == "0"
    (head,) = cluster.pids(cluster.head)
    before = resident_mb(head)
    cluster.send(cluster.nodes[1], signal.SIGSTOP)
    during = driver.submit(
        "import numpy; refs = [counter.swallow.remote(numpy.zeros(60_000, 'u1')) for _ in range(5000)]; len(refs)"
    )
    stopped = driver.submit("ray.get(refs[-1])")
    hold(1.0)
    begin = time.time()
    assert other.ask("[ray.get(near.add.remote(1)) for _ in range(100)][-1]") == "100"
    assert time.time() - begin < SLACK_S
    hold(1.0)
    # 300 MB are sent in all.
    assert resident_mb(head) - before < 150
    assert f"done {during} " not in driver.program.out, "the program sends without an end"
    cluster.send(cluster.nodes[1], signal.SIGCONT)
    driver.answer(during, 60)
    assert driver.answer(stopped, 60) == "60000"
    other.program.ok()
    cluster.down(driver)


def test_a_node_stopped_for_long_is_dead_and_leaves(cluster: Cluster) -> None:
    driver = start_movable(cluster)
    third = cluster.nodes[1]
    begin = cluster.send(third, signal.SIGSTOP)
    noticed = driver.alive("machine1", "machine2", "machine4") - begin
    assert SILENCE_S - 1.5 <= noticed <= SILENCE_S + VERDICT_S + SLACK_S, f"noticed after {noticed:.2f} s"
    assert driver.ask("ray.get(movable.where.remote())[0]") != "'machine3'"
    cluster.send(third, signal.SIGCONT)
    cluster.gone(third)
    cluster.join(third).ok()
    driver.alive(*ALL)
    works_everywhere(driver)
    cluster.down(driver)


def test_a_killed_zygote_is_replaced(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    cluster.send(cluster.nodes[1], signal.SIGKILL, ZYGOTE)
    assert driver.ask("ray.get(work.options(**on('machine3')).remote(0.1))") == "'machine3'"
    assert driver.reports() == reports
    cluster.down(driver)


def test_a_killed_node_costs_no_task(cluster: Cluster) -> None:
    driver = start_movable(cluster)
    third = cluster.nodes[1]
    driver.ask("refs = [work.options(num_cpus=0.1).remote(0.5) for _ in range(60)]")
    begin = cluster.send(third, signal.SIGKILL)
    noticed = driver.alive("machine1", "machine2", "machine4") - begin
    assert noticed < 0.2 + SLACK_S, f"noticed after {noticed:.2f} s"
    assert driver.ask("len(ray.get(refs))", 60) == "60"
    assert driver.ask("ray.get(movable.where.remote())[0]") != "'machine3'"
    cluster.gone(third)
    cluster.join(third).ok()
    driver.alive(*ALL)
    works_everywhere(driver)
    cluster.down(driver)


def test_a_killed_head_ends_all_nodes(cluster: Cluster) -> None:
    cluster.up().program.ok()
    driver = Driver(cluster.nodes[0])
    cluster.send(cluster.head, signal.SIGKILL)
    for machine in cluster.nodes:
        cluster.gone(machine, SILENCE_S + SLACK_S)
    assert "Error" in driver.failure("ray.get(where.remote())")
    driver.program.end()
    cluster.gone(cluster.head)
    cluster.down()


def test_a_head_stopped_for_three_seconds_goes_on(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    cluster.send(cluster.head, signal.SIGSTOP)
    hold(3.0)
    cluster.send(cluster.head, signal.SIGCONT)
    works_everywhere(driver)
    nothing_has_happened(driver, reports)
    cluster.down(driver)


def test_a_head_stopped_for_long_is_gone_and_buries_nobody_alive(cluster: Cluster) -> None:
    driver = start(cluster)
    cluster.send(cluster.head, signal.SIGSTOP)
    # Without a state folder nothing can follow the head.
    for machine in cluster.nodes:
        cluster.gone(machine, SILENCE_S + VERDICT_S + SLACK_S)
    cluster.send(cluster.head, signal.SIGCONT)
    driver.alive("machine1")
    assert driver.ask("ray.get(where.remote())") == "'machine1'"
    cluster.down(driver)


@pytest.mark.parametrize("seconds", [15.0, 60.0])
def test_a_program_behind_the_head_connects_again(cluster: Cluster, seconds: float) -> None:
    driver = cluster.up(2)
    laptop = cluster.nodes[2]
    client = Driver(laptop, f"ray://{cluster.address}")
    client.ask("counter = Counter.options(**on('machine2')).remote()")
    assert client.ask("ray.get(counter.add.remote(1))") == "1"
    cluster.network.cut(laptop)
    during = client.submit("ray.get(counter.add.remote(1))")
    hold(seconds)
    cluster.network.heal(laptop)
    if seconds < CLIENT_SILENCE_S:
        assert client.answer(during, 60) == "2"
        assert client.ask("ray.get(counter.add.remote(1))") == "3"
        client.program.ok()
    else:
        said = client.program.wait_for_output(f"^(done|failed) {during} .*$", 60)
        assert said.startswith("failed"), said
        client.program.end()
    cluster.gone(laptop)
    cluster.down(driver)


@pytest.mark.parametrize("end", ["killed", "cut"])
def test_what_a_program_has_started_ends_with_it(cluster: Cluster, end: str) -> None:
    driver = cluster.up()
    machine, other = cluster.nodes[0], cluster.nodes[1]
    program = Driver(machine)
    program.ask("mine = Counter.options(name='mine', namespace='n', **on('machine3')).remote()")
    program.ask(
        "kept = Counter.options(name='kept', namespace='n', lifetime='detached', **on('machine3')).remote()"
    )
    program.ask("running = work.options(**on('machine3')).remote(600.0)")
    assert program.ask("ray.get([mine.add.remote(1), kept.add.remote(2)])") == "[1, 2]"
    wait_for(lambda: len(cluster.pids(other, "ray::")) == 3, 10.0, "two actors and a task")
    if end == "killed":
        program.program.kill()
        limit = SLACK_S
    else:
        cluster.network.cut(machine)
        limit = SILENCE_S + VERDICT_S + SLACK_S
    wait_for(lambda: len(cluster.pids(other, "ray::")) == 1, limit, "the end of one actor and of the task")
    assert driver.ask("ray.get(ray.get_actor('kept', namespace='n').add.remote(1))") == "3"
    assert "ValueError" in driver.failure("ray.get_actor('mine', namespace='n')")
    if end == "cut":
        cluster.gone(machine)
        cluster.network.heal(machine)
        cluster.join(machine).ok()
        program.program.end()
    driver.alive(*ALL)
    works_everywhere(driver)
    cluster.down(driver)


def test_a_cut_head_ends_the_nodes(cluster: Cluster) -> None:
    driver = start(cluster)
    cluster.network.cut(cluster.head)
    for machine in cluster.nodes:
        cluster.gone(machine, SILENCE_S + VERDICT_S + SLACK_S)
    cluster.network.heal(cluster.head)
    assert driver.ask("ray.get(where.options(**on('machine1')).remote())") == "'machine1'"
    cluster.down(driver)


def test_a_long_and_lossy_way(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3, taps=True))
    driver = cluster.up()
    driver.ask("counter = Counter.options(**on('machine2')).remote()")
    reports = driver.reports()
    cluster.network.delay(0.05)
    cluster.network.lose(0.01)
    wanted = str(sum(range(1_000_000)))
    deadline = time.time() + 60
    rounds = 0
    while time.time() < deadline:
        rounds += 1
        driver.ask(
            "refs = [where.options(**on(n)).remote() for n in ('machine2', 'machine3') for _ in range(20)]"
        )
        assert driver.ask("sorted(set(ray.get(refs)))", 60) == "['machine2', 'machine3']"
        assert driver.ask("ray.get([counter.add.remote(1) for _ in range(20)])[-1]", 60) == str(20 * rounds)
        driver.ask("value = make.options(**on('machine2')).remote(8_000_000)")
        assert driver.ask("ray.get(total.options(**on('machine3')).remote(value))", 60) == wanted
    assert driver.reports() == reports and rounds >= 3, f"{rounds} rounds; {driver.program.story()}"
    cluster.network.delay(0.0)
    cluster.network.lose(0.0)
    cluster.down(driver)
