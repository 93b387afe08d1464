"""A second head waits on another machine, and takes over when the first has ended; the state is in etcd."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable

import pytest

from tests.cluster.cluster import PORT, Cluster, Driver
from tests.cluster.namespaces import Machine, Network, Program

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

#: The exit code of a node that has lost its cluster.
LOST = 3
NAMED = "ray.get(ray.get_actor('it', namespace='n').add.remote(1))"


def start_etcd(machine: Machine) -> str:
    """Run etcd on a machine; return the address of a head's state there."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd not found; `make etcd` installs it on Debian")
    client = f"http://{machine.address}:2379"
    flags = ["--listen-client-urls", client, "--advertise-client-urls", client, "--log-outputs", "stderr"]
    program = machine.start("etcd", "--data-dir", "/tmp/etcd", *flags)
    program.wait_for_output("ready to serve client requests", on_stderr=True)
    return f"etcd://{machine.address}:2379/it"


def start_head(cluster: Cluster, machine: Machine, state: str) -> Program:
    """Begin to start a head or a standby, in the foreground as a supervisor does."""
    flags = ("--head", "--port", str(PORT), "--state-store", state, "--standby", "--block")
    program = cluster.start(machine, *flags)
    program.wait_for_output("^It stands by")
    return program


def up(cluster: Cluster, state: str) -> tuple[Driver, Program]:
    """Start a head on the first machine, a standby on the last, and nodes; return a driver on the second, and the head."""
    first, *members, last = cluster.network.machines
    cluster.address = f"{first.address}:{PORT},{last.address}:{PORT}"
    head = start_head(cluster, first, state)
    head.wait_for_output("^A node is up")
    start_head(cluster, last, state)
    for program in [cluster.join(machine) for machine in members]:
        program.ok()
    driver = Driver(members[0])
    driver.alive(*(machine.name for machine in (first, *members)))
    where = members[-1].name
    driver.ask(
        f"counter = Counter.options(name='it', namespace='n', lifetime='detached', **on('{where}')).remote()"
    )
    assert driver.ask(NAMED) == "1"
    return driver, head


def continues(driver: Driver, count: int, begin: float) -> int:
    """Check that calls between members continue, and that a new actor starts as soon as there is a head; return the count."""
    waiting = driver.submit("ray.get(Counter.options(**on('machine2')).remote().add.remote(1))")
    while f"done {waiting} " not in driver.program.out:
        count += 1
        assert driver.ask("ray.get(counter.add.remote(1))") == str(count)
        assert time.time() - begin < 50, driver.program.story()
    assert driver.answer(waiting) == "1"
    assert driver.ask(NAMED) == str(count + 1)
    return count + 1


def test_a_standby_takes_over_from_a_killed_head_and_back(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(4))
    first, second, third, last = cluster.network.machines
    state = start_etcd(third)
    driver, _ = up(cluster, state)
    reports = driver.reports()
    begin = cluster.send(first, signal.SIGKILL)
    count = continues(driver, 1, begin)
    driver.alive("machine2", "machine3", "machine4")
    assert driver.reports() <= reports + 2  # without the one, and with the other; nobody else has ended
    laptop = Driver(first, cluster.address)  # finds the head at the second address
    count += 1
    assert laptop.ask(NAMED) == str(count)
    laptop.program.ok()
    start_head(cluster, first, state)
    last.skate("stop").ok()
    count = continues(driver, count, time.time())
    driver.alive("machine1", "machine2", "machine3")
    assert driver.ask("ray.get(where.options(**on('machine3')).remote())") == "'machine3'"
    driver.program.ok()
    end(cluster)


def test_a_standby_takes_over_from_a_head_that_is_cut_off(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(4))
    first, second, third, last = cluster.network.machines
    driver, head = up(cluster, start_etcd(last))
    begin = time.time()
    cluster.network.cut(first)
    continues(driver, 1, begin)
    driver.alive("machine2", "machine3", "machine4")
    # The old head has ended by itself, before the new one began.
    assert head.end() == LOST and "and another head may begin" in head.err, head.story()
    cluster.network.heal(first)
    assert driver.ask(NAMED)
    driver.program.ok()
    end(cluster)


def end(cluster: Cluster) -> None:
    """Stop all nodes, the head last."""
    for machine in (*cluster.nodes, cluster.head):
        machine.skate("stop").ok()
    for machine in cluster.network.machines:
        for what in (" -m skate ", "etcd"):
            if cluster.pids(machine, what):
                cluster.send(machine, signal.SIGTERM, what)
        cluster.gone(machine)
