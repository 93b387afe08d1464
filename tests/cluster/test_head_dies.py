"""The head of a cluster ends and is started again with its state; what runs on other machines continues."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster, Driver
from tests.cluster.namespaces import Network

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

#: Much longer than the silence after which a head counts as lost.
STOPPED_S = 20.0
STATE = ("--state-dir", "/tmp/state")
NAMED = "ray.get(ray.get_actor('it', namespace='n').add.remote(1))"


def up(cluster: Cluster, *flags: str) -> Driver:
    """Start the head with state and the other nodes, and a counter on the last; return a driver on the second machine."""
    cluster.start_head(*STATE, *flags).ok()
    for program in [cluster.join(machine) for machine in cluster.nodes]:
        program.ok()
    driver = Driver(cluster.nodes[0])
    driver.alive(*(machine.name for machine in cluster.network.machines))
    last = cluster.nodes[-1].name
    driver.ask(
        f"counter = Counter.options(name='it', namespace='n', lifetime='detached', **on('{last}')).remote()"
    )
    assert driver.ask(NAMED) == "1"
    return driver


def test_the_head_is_killed_under_calls_and_started_again(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3))
    driver = up(cluster)
    driver.ask("mine = Counter.options(**on('machine3')).remote()")
    assert driver.ask("ray.get(mine.add.remote(1))") == "1"
    driver.ask(
        "kept = Counter.options(name='of the head', max_restarts=-1, max_task_retries=1, **on('machine1')).remote()"
    )
    assert driver.ask("ray.get(kept.add.remote(7))") == "7"
    driver.ask("from skate.experimental import internal_kv as kv")
    driver.ask("kv._internal_kv_put(b'key', b'value')")
    driver.ask("group = ray.util.placement_group([on('machine3')['resources']])")
    assert driver.ask("group.wait(20)") == "True"
    count = 1
    for signal_number in (signal.SIGKILL, None):  # it dies, and then it is stopped by its user
        if signal_number is None:
            cluster.head.skate("stop").ok()
        else:
            cluster.send(cluster.head, signal_number)
        cluster.gone(cluster.head)
        begin = time.time()
        for number in range(1, 31):  # calls between two members, from the driver and from a task's worker
            count += 1
            assert driver.ask("ray.get(counter.add.remote(1))") == str(count)
            assert int(driver.ask("ray.get(mine.add.remote(1))")) >= number
        count += 1
        assert (
            driver.ask("ray.get(ask.options(**on('machine2')).remote(counter))") == f"('machine2', {count})"
        )
        assert time.time() - begin < 20
        waiting = driver.submit("ray.get(Counter.options(**on('machine2')).remote().add.remote(1))")
        cluster.start_head(*STATE).ok()
        assert driver.answer(waiting) == "1"
        count += 1
        assert driver.ask(NAMED) == str(count)
        driver.alive("machine1", "machine2", "machine3")
        assert driver.ask("ray.get(kept.add.remote(1))") == "1"  # another process: it has begun again
        assert driver.ask("kv._internal_kv_get(b'key')") == "b'value'"
        assert driver.ask("ray.util.placement_group_table(group)['state']") == "'CREATED'"
        assert driver.ask(
            "ray.get([where.options(**on(n)).remote() for n in ('machine1', 'machine2', 'machine3')])"
        )
    other = Driver(cluster.nodes[1])
    other.alive("machine1", "machine2", "machine3")
    count += 1
    assert other.ask(NAMED) == str(count)
    other.program.ok()
    cluster.down(driver)


def test_a_head_stopped_for_long_is_followed_by_itself(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3))
    driver = up(cluster)
    driver.ask("mine = Counter.options(**on('machine3')).remote()")
    count = int(driver.ask("ray.get(mine.add.remote(1))"))
    begin = cluster.send(cluster.head, signal.SIGSTOP)
    while time.time() < begin + STOPPED_S:
        count += 1
        assert driver.ask("ray.get(mine.add.remote(1))") == str(count)
    waiting = driver.submit("ray.get(Counter.options(**on('machine2')).remote().add.remote(1))")
    cluster.send(cluster.head, signal.SIGCONT)
    assert driver.answer(waiting, 60) == "1"
    # Nothing was restarted.
    assert driver.ask(NAMED) == "2" and driver.ask("ray.get(mine.add.remote(1))") == str(count + 1)
    driver.alive("machine1", "machine2", "machine3")
    assert driver.ask("ray.get(where.options(**on('machine1')).remote())") == "'machine1'"
    cluster.down(driver)


def test_without_space_for_records_the_rest_continues(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(2))
    for command in (("mkdir", "/tmp/state"), ("mount", "-t", "tmpfs", "-o", "size=2m", "none", "/tmp/state")):
        cluster.head.start(*command).ok()
    driver = up(cluster)
    cluster.head.start("sh", "-c", "cat /dev/zero > /tmp/state/filler; test -s /tmp/state/filler").ok()
    create = "ray.get(Counter.options(name='{0}', **on('machine2')).remote().add.remote(1))"
    error = driver.failure(create.format("new"))
    assert "/tmp/state is full" in error, error
    assert driver.ask(NAMED) == "2"
    assert driver.ask("ray.get(where.options(**on('machine1')).remote())") == "'machine1'"
    cluster.head.start("rm", "/tmp/state/filler").ok()
    assert driver.ask(create.format("later")) == "1"
    cluster.down(driver)


def test_nodes_end_when_the_head_stays_away(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3))
    driver = up(cluster, "--state-grace", "4")
    cluster.send(cluster.head, signal.SIGKILL)
    waiting = driver.submit("ray.get(Counter.remote().add.remote(1))")
    line = driver.program.wait_for_output(f"^(done|failed) {waiting} .*$", 60)
    assert line.startswith("failed") and "head" in line, line
    for machine in cluster.nodes:
        cluster.gone(machine, 60)
    driver.program.ok()
    cluster.gone(cluster.head)
