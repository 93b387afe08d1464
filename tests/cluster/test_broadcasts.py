"""A large value that many machines read at once, over cables of limited bandwidth."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster, Driver
from tests.cluster.namespaces import Network

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

READERS = 8
RATE = "100mbit"
SIZE = 64 << 20
#: A broadcast takes at most so many times as long as a transfer to one machine; from one place to each it would take 8 times.
RATIO_MAX = 2.5
ANSWER_S = 120


def read_on(driver: Driver, names: list[str]) -> tuple[float, list[str]]:
    """Have tasks on machines read the value; return the seconds, and their results."""
    begin = time.monotonic()
    line = f"ray.get([total.options(**on(name)).remote(value) for name in {names}])"
    totals = eval(driver.ask(line, ANSWER_S))
    return time.monotonic() - begin, totals


def warm(driver: Driver, names: list[str]) -> None:
    """Start a worker on each machine, which imports what the tasks need."""
    driver.ask("few = __import__('numpy').arange(9)")
    driver.ask(f"ray.get([total.options(**on(name)).remote(few) for name in {names}])", 60)


def begin(network: Callable[..., Network]) -> tuple[Cluster, Driver, list[str]]:
    """Start a head, a machine for a first transfer, and the readers, all with slow cables."""
    cluster = Cluster(network(READERS + 2))
    driver = cluster.up(store=2**28)
    names = [machine.name for machine in cluster.nodes]
    warm(driver, names)
    for machine in cluster.network.machines:
        cluster.network.slow(machine, RATE)
    driver.ask(f"made = __import__('numpy').arange({SIZE // 8})")
    return cluster, driver, names


def test_a_broadcast_takes_little_longer_than_one_transfer(network: Callable[..., Network]) -> None:
    cluster, driver, (first, *readers) = begin(network)
    driver.ask("value = ray.put(made)")
    wanted = int(driver.ask("int(made.sum())"))
    one_s, totals = read_on(driver, [first])
    assert totals == [wanted]
    driver.ask("value = ray.put(made)")
    all_s, totals = read_on(driver, readers)
    assert totals == [wanted] * READERS
    print(f"one transfer {one_s:.1f} s, to {READERS} machines {all_s:.1f} s: {all_s / one_s:.2f} times")
    assert all_s < RATIO_MAX * one_s, (one_s, all_s)
    driver.ask("del value")
    cluster.down(driver)


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_machines_that_end_in_the_middle_of_a_broadcast_stop_nobody(
    network: Callable[..., Network], kind: signal.Signals
) -> None:
    cluster, driver, (_, *readers) = begin(network)
    driver.ask("value = ray.put(made)")
    wanted = driver.ask("int(made.sum())")
    line = f"refs = {{name: total.options(**on(name), max_retries=0).remote(value) for name in {readers}}}"
    driver.ask(line)
    lost = readers[2:4]
    for name in lost:
        cluster.send(next(each for each in cluster.nodes if each.name == name), kind)
    for name in readers:
        if name not in lost:
            assert driver.ask(f"ray.get(refs[{name!r}])", ANSWER_S) == wanted
    for name in lost:
        failure = driver.failure(f"ray.get(refs[{name!r}])", ANSWER_S)
        assert "Died" in failure or "Crashed" in failure, failure
    for name in lost:
        machine = next(each for each in cluster.nodes if each.name == name)
        if kind == signal.SIGSTOP:
            cluster.send(machine, signal.SIGKILL)
        cluster.nodes.remove(machine)
    driver.ask("del value, refs")
    cluster.down(driver)


def test_a_spilled_value_is_sent_without_room_in_memory(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(2))
    driver = cluster.up(store=2**28)
    warm(driver, ["machine2"])
    driver.ask("parts = [__import__('numpy').arange(2**23) + number for number in range(8)]")
    sums = eval(driver.ask("[int(each.sum()) for each in parts]"))
    driver.ask("values = [ray.put(parts.pop(0)) for _ in range(8)]", ANSWER_S)
    before = cluster.status(cluster.head)
    assert before["spilled"] > 2**27, before
    for number in range(3):  # the first ones are on disk, and the second machine has room for three
        line = f"ray.get(total.options(**on('machine2')).remote(values[{number}]))"
        assert driver.ask(line, ANSWER_S) == str(sums[number])
    after = cluster.status(cluster.head)
    assert (after["memory_used"], after["spilled"]) == (before["memory_used"], before["spilled"])
    driver.ask("del values")
    cluster.down(driver)
