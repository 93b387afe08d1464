"""Nodes that are drained or stopped while something runs there; `make test-cluster` runs them."""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import SLACK_S, Cluster, Driver

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]
PREEMPTION = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a spot instance")
IDLE = ("--reason", "DRAIN_NODE_REASON_IDLE_TERMINATION")


def ids(driver: Driver) -> list[str]:
    """Return the ids of the nodes by the number of their machine."""
    driver.ask(
        "nodes = {next(k for k in n['Resources'] if k.startswith('machine')): n['NodeID'] for n in ray.nodes() if n['Alive']}"
    )
    return [eval(driver.ask(f"nodes.get('machine{number}', '')")) for number in range(5)]


def test_a_drained_node_ends_its_tasks_and_hands_its_actors_on(cluster: Cluster) -> None:
    driver = cluster.up(2)
    _, first, second, third, _ = ids(driver)
    driver.ask("from skate.util import scheduling_strategies as s")
    driver.ask(
        f"movable = Counter.options(max_restarts=1, max_task_retries=1, "
        f"scheduling_strategy=s.NodeAffinitySchedulingStrategy({third!r}, soft=True)).remote()"
    )
    assert driver.ask("ray.get(movable.where.remote())[0]") == "'machine3'"
    # An actor that may not restart keeps the node.
    driver.ask("keeper = Counter.options(**on('machine3')).remote()")
    assert driver.ask("ray.get(keeper.add.remote(1))") == "1"
    driver.ask("running = work.options(**on('machine3')).remote(1.0)")
    node = cluster.nodes[1]
    busy = node.skate("drain-node", *IDLE)
    assert busy.end() == 1 and "not accepted" in busy.err and "not idle" in busy.err
    head = node.skate("drain-node", *PREEMPTION, "--node-id", first)
    assert head.end() == 1 and "it is the head" in head.err
    said = node.skate("drain-node", *PREEMPTION, "--deadline-remaining-seconds", "60").ok()
    assert third in said
    status = cluster.head.skate("status").ok()
    assert "draining: was preempted (a spot instance), for " in status
    assert (
        driver.ask("[n['DrainReason'] for n in ray.nodes() if n.get('Draining')]")
        == "['was preempted (a spot instance)']"
    )
    assert "machine3" not in driver.ask("set(ray.get([where.remote() for _ in range(40)]))")
    assert driver.ask("ray.get(running)") == "'machine3'"
    assert driver.ask("ray.get([keeper.add.remote(1), movable.add.remote(1)])") == "[2, 1]"
    driver.ask("ray.kill(keeper)")
    driver.alive("machine1", "machine2")
    assert driver.ask("ray.get(movable.where.remote())[0]") != "'machine3'"
    assert driver.ask(
        "[(n['DeathReason'], n['DeathReasonMessage']) for n in ray.nodes() if not n['Alive']]"
    ) == ("[(1, 'was preempted (a spot instance)')]")
    cluster.gone(node)
    # The restart did not count: the actor may restart once more.
    driver.ask("ray.kill(movable, no_restart=False)")
    assert driver.ask("ray.get(movable.add.remote(1))") == "1"
    cluster.down(driver)


def test_a_stopped_node_drains_first(cluster: Cluster) -> None:
    driver = cluster.up(1)
    running = driver.submit("ray.get(work.options(**on('machine2'), max_retries=0).remote(2.0))")
    cluster.nodes[0].skate("stop").ok()
    assert driver.answer(running) == "'machine2'"
    cluster.gone(cluster.nodes[0])
    cluster.down(driver)


def test_a_deadline_ends_what_still_runs(cluster: Cluster) -> None:
    driver = cluster.up(1)
    running = driver.submit("ray.get(work.options(**on('machine2'), max_retries=0).remote(60.0))")
    begin = time.time()
    cluster.nodes[0].skate("drain-node", *PREEMPTION, "--deadline-remaining-seconds", "2").ok()
    driver.alive("machine1")
    assert 1.5 <= time.time() - begin < 3.0 + SLACK_S
    said = driver.program.wait_for_output(f"^(done|failed) {running} .*$", 10.0)
    assert "NodeDiedError" in said and "was preempted" in said
    cluster.gone(cluster.nodes[0])
    cluster.down(driver)
