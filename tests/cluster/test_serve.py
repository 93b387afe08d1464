"""Serve on several machines: each with replicas accepts requests, also while nodes die and versions change."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable

import pytest

from tests.cluster import serve_programs
from tests.cluster.cluster import Cluster, Driver
from tests.cluster.namespaces import Machine, Network, Program
from tests.conformance.waiting import wait_for

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]


def program(machine: Machine, *words: str) -> Program:
    """Start one of the programs on a machine."""
    return machine.start(sys.executable, "-m", serve_programs.__name__, *words)


def answers(load: Program) -> dict[str, int]:
    """End a load; return how often each answer came."""
    found: dict[str, int] = json.loads(load.ok().rpartition("answers ")[2])
    return found


def test_every_machine_with_replicas_serves(cluster: Cluster) -> None:
    driver = cluster.up(2)
    deployed = program(cluster.nodes[0], "deploy", "v1", "6")
    assert deployed.ok(60).endswith("deployed v1 3\n"), deployed.story()
    for machine in (cluster.head, *cluster.nodes[:2]):
        load = program(machine, "load")
        load.wait_for_output("^answer v1 machine")
        found = answers(load)
        assert set(found) <= {"v1 machine1", "v1 machine2", "v1 machine3"}, found
    cluster.head.skate("serve", "shutdown", "-y").ok()
    cluster.down(driver)


def test_requests_are_carried_to_the_only_replica(cluster: Cluster) -> None:
    driver = cluster.up(2)
    program(cluster.head, "deploy", "v1", "1", "machine3").ok(60)
    load = program(cluster.head, "load")
    load.wait_for_output("^answer v1 machine3$")
    assert set(answers(load)) == {"v1 machine3"}
    cluster.head.skate("serve", "shutdown", "-y").ok()
    cluster.down(driver)


def test_an_update_over_three_machines_fails_no_request(cluster: Cluster) -> None:
    driver = cluster.up(2)
    program(cluster.head, "deploy", "v1", "6").ok(60)
    loads = [program(machine, "load") for machine in (cluster.head, *cluster.nodes[:2])]
    for load in loads:
        load.wait_for_output("^answer v1 ")
    program(cluster.nodes[0], "deploy", "v2", "6").ok(60)
    for load in loads:
        load.wait_for_output("^answer v2 ")
        found = answers(load)
        assert all(text.startswith(("v1 machine", "v2 machine")) for text in found), (
            f"{found}; {load.err[-2000:]}"
        )
    cluster.head.skate("serve", "shutdown", "-y").ok()
    cluster.down(driver)


def test_a_killed_node_costs_only_its_own_requests(cluster: Cluster) -> None:
    driver = cluster.up(2)
    program(cluster.head, "deploy", "v1", "3").ok(60)
    load = program(cluster.head, "load")
    load.wait_for_output("^answer v1 ")
    cluster.send(cluster.nodes[1], signal.SIGKILL)
    driver.alive("machine1", "machine2")
    # Its replicas are replaced on the machines that are left.
    driver.ask("from skate import serve")
    states = (
        "dict(serve.status().applications['default'].deployments['Host'].replica_states) == {'RUNNING': 3}"
    )
    wait_for(lambda: driver.ask(states) == "True", 30, "three replicas")
    found = answers(load)
    wrong = {text: count for text, count in found.items() if not text.startswith("v1 machine")}
    # At most one request of each of the four clients was on its way to a replica of the node.
    assert sum(wrong.values()) <= 4, wrong
    cluster.head.skate("serve", "shutdown", "-y").ok()
    cluster.nodes[1].skate("stop")
    cluster.down(driver)


def test_a_drained_node_fails_no_request(cluster: Cluster) -> None:
    driver = cluster.up(2)
    program(cluster.head, "deploy", "v1", "3").ok(60)
    load = program(cluster.head, "load")
    load.wait_for_output("^answer v1 ")
    reason = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot")
    cluster.nodes[1].skate("drain-node", *reason).ok()
    driver.alive("machine1", "machine2")
    found = answers(load)
    assert all(text.startswith("v1 machine") for text in found), f"{found}; {load.err[-2000:]}"
    cluster.head.skate("serve", "shutdown", "-y").ok()
    cluster.down(driver)


def test_serve_answers_while_the_head_is_away(network: Callable[..., Network]) -> None:
    cluster = Cluster(network(3))
    state = ("--state-dir", "/tmp/state")
    cluster.start_head(*state).ok()
    for joining in [cluster.join(machine) for machine in cluster.nodes]:
        joining.ok()
    driver = Driver(cluster.nodes[0])
    driver.alive("machine1", "machine2", "machine3")
    program(cluster.nodes[0], "deploy", "v1", "6").ok(60)
    loads = [program(machine, "load") for machine in cluster.nodes]
    for load in loads:
        load.wait_for_output("^answer v1 ")
    cluster.send(cluster.head, signal.SIGKILL)
    cluster.gone(cluster.head)
    cluster.start_head(*state).ok()
    driver.alive("machine1", "machine2", "machine3")
    # The controller is back, wherever it was.
    program(cluster.nodes[0], "deploy", "v2", "6").ok(90)
    for load in loads:
        load.wait_for_output("^answer v2 ", 60)
        found = answers(load)
        assert all(text.startswith(("v1 machine", "v2 machine")) for text in found), (
            f"{found}; {load.err[-2000:]}"
        )
    cluster.nodes[0].skate("serve", "shutdown", "-y").ok()
    cluster.down(driver)
