"""Scenes in which a part of a node fails, and the rest of it runs: its engine hangs, its disk is full, it has no way around."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.cluster import SLACK_S, Cluster, Driver, hold
from tests.cluster.namespaces import Machine, Network
from tests.cluster.test_faults import SILENCE_S, VERDICT_S, nothing_has_happened, start, works_everywhere
from tests.cluster.threads import dask_thread, stopped

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

STORE_BYTES = 78_643_200
ALL = ("machine1", "machine2", "machine3", "machine4")


def engine_of(cluster: Cluster, machine: Machine) -> int:
    """Return the thread of Dask in a machine's node."""
    (pid,) = cluster.pids(machine)
    return dask_thread(pid)


def test_a_node_whose_engine_hangs_works_on(cluster: Cluster) -> None:
    driver = start(cluster)
    reports = driver.reports()
    with stopped(engine_of(cluster, cluster.nodes[1])):
        begin = time.time()
        assert driver.ask("ray.get(counter.add.remote(1))") == "2"
        # Nobody can open a connection to it, so a large value takes the one that there is.
        driver.ask("value = make.options(**on('machine3')).remote(8_000_000)")
        wanted = str(sum(range(1_000_000)))
        assert driver.ask("ray.get(total.options(**on('machine2')).remote(value))", 60) == wanted
        hold(max(0.0, begin + 2 * SILENCE_S + VERDICT_S - time.time()))
        nothing_has_happened(driver, reports)
    works_everywhere(driver)
    nothing_has_happened(driver, reports)
    cluster.down(driver)


def test_a_head_whose_engine_hangs_admits_nobody_until_it_runs_again(cluster: Cluster) -> None:
    driver = cluster.up(2)
    driver.ask("counter = Counter.options(**on('machine3')).remote()")
    assert driver.ask("ray.get(counter.add.remote(1))") == "1"
    reports = driver.reports()
    with stopped(engine_of(cluster, cluster.head)):
        joining = cluster.join(cluster.nodes[2])
        hold(2 * SILENCE_S + VERDICT_S)
        assert joining.process.poll() is None, joining.story()
        nothing_has_happened(driver, reports)
    joining.ok(60)
    driver.alive(*ALL)
    works_everywhere(driver)
    cluster.down(driver)


def test_without_a_third_node_a_silent_direction_is_death(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(2))
    driver = cluster.up()
    driver.ask("counter = Counter.options(**on('machine2')).remote()")
    assert driver.ask("ray.get(counter.add.remote(1))") == "1"
    (other,) = cluster.nodes
    begin = time.time()
    cluster.network.silence(other, cluster.head)
    failure = driver.failure("ray.get(counter.add.remote(1))")
    assert time.time() - begin < SILENCE_S + VERDICT_S + SLACK_S
    assert failure.startswith("ActorDiedError") and "was not heard for" in failure, failure
    cluster.gone(other, SLACK_S)
    cluster.network.unsilence(other, cluster.head)
    cluster.join(other).ok()
    driver.alive("machine1", "machine2")
    assert driver.ask("ray.get(where.options(**on('machine2')).remote())") == "'machine2'"
    cluster.down(driver)


def test_a_node_whose_disk_is_full_refuses_a_value_and_loses_none(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3))
    cluster.store_bytes = STORE_BYTES
    second, third = cluster.nodes
    cluster.start_head().ok()
    third.start("mkdir", "/tmp/spilled").ok()
    third.start("mount", "-t", "tmpfs", "-o", "size=1m", "none", "/tmp/spilled").ok()
    for joining in (cluster.join(second), cluster.join(third, "--object-spilling-directory", "/tmp/spilled")):
        joining.ok()
    driver = Driver(cluster.head)
    driver.alive("machine1", "machine2", "machine3")
    reports = driver.reports()
    # Two values fill the memory of the third machine. They are in use there, and its disk has no space for a third.
    size = 30_000_000
    wanted = str((size // 8) * (size // 8 - 1) // 2)
    driver.ask("sums = lambda refs, at: ray.get([total.options(**on(at)).remote(each) for each in refs])")
    driver.ask(f"here = [make.options(**on('machine3')).remote({size}) for _ in range(2)]")
    driver.ask("ray.wait(here, num_returns=2, fetch_local=False)")
    driver.ask(f"there = make.options(**on('machine2')).remote({size})")
    failure = driver.failure("ray.get(total.options(max_retries=0, **on('machine3')).remote(there))", 120)
    assert "spilled" in failure, failure
    # It still has its own, others have theirs, and once there is space the third one crosses.
    assert driver.ask("sums(here, 'machine3')", 60) == f"[{wanted}, {wanted}]"
    assert driver.ask("sums([there], 'machine2')", 60) == f"[{wanted}]"
    driver.ask("del here")
    assert driver.ask("sums([there], 'machine3')", 60) == f"[{wanted}]"
    assert driver.reports() == reports
    cluster.down(driver)
