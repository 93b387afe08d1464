"""Machines join a cluster by address and token, and run what a driver gives them; nobody else gets in."""

from __future__ import annotations

import secrets
import signal

import pytest

from tests.cluster.cluster import PORT, SLACK_S, Cluster, Driver
from tests.cluster.namespaces import Machine

MACHINES = ("machine1", "machine2", "machine3", "machine4")
#: The size of a large value here; `make test-cluster` sends a gigabyte.
LARGE = 50_000_000


def test_nodes_join_and_run_tasks_actors_and_values(cluster: Cluster) -> None:
    driver = cluster.up()
    nodes = "sorted((node['NodeManagerAddress'], node['NodeManagerHostname']) for node in ray.nodes())"
    assert eval(driver.ask(nodes)) == [(each.address, each.name) for each in cluster.network.machines]
    places = driver.ask(f"ray.get([where.options(**on(name)).remote() for name in {MACHINES}])")
    assert eval(places) == list(MACHINES)

    driver.ask("counter = Counter.options(name='counter', **on('machine2')).remote()")
    assert driver.ask("ray.get(counter.add.remote(1))") == "1"
    # A call from one node to another, neither of them the head.
    assert driver.ask("ray.get(ask.options(**on('machine3')).remote(counter))") == "('machine3', 2)"
    assert driver.ask("ray.get(ray.get_actor('counter').where.remote())[0]") == "'machine2'"

    wanted = str(sum(range(LARGE // 8)))
    driver.ask(f"value = make.options(**on('machine2')).remote({LARGE})")
    assert driver.ask("ray.get(total.options(**on('machine3')).remote(value))") == wanted
    assert driver.ask("int(ray.get(value).sum())") == wanted
    driver.ask("own = ray.put(ray.get(value))")
    assert driver.ask("ray.get(counter.fetch.remote([own]))") == wanted

    alive = [node for node in cluster.status(cluster.head)["nodes"] if node["alive"]]
    assert sorted(node["host"] for node in alive) == list(MACHINES)
    cluster.down(driver)


@pytest.mark.cluster_scene
def test_a_driver_on_any_machine_sees_the_cluster(cluster: Cluster) -> None:
    first = cluster.up(2)
    second = Driver(cluster.nodes[0])
    second.alive("machine1", "machine2", "machine3")
    first.ask(
        "counter = Counter.options(name='it', namespace='n', lifetime='detached', **on('machine3')).remote()"
    )
    assert first.ask("ray.get(counter.add.remote(1))") == "1"
    assert second.ask("ray.get(ray.get_actor('it', namespace='n').add.remote(1))") == "2"
    assert second.ask("ray.get(where.options(**on('machine1')).remote())") == "'machine1'"
    second.program.ok()
    assert first.ask("ray.get(counter.add.remote(1))") == "3"
    cluster.down(first)


def test_another_token_is_refused(cluster: Cluster) -> None:
    driver = cluster.up(1)
    stranger = cluster.nodes[1]
    cluster.write_token(stranger, secrets.token_hex(32))
    program = cluster.join(stranger)
    assert program.end() == 1
    assert "token" in program.err, program.story()
    cluster.gone(stranger)
    driver.alive("machine1", "machine2")
    assert driver.ask("ray.get(where.options(**on('machine2')).remote())") == "'machine2'"
    cluster.down(driver)


SPEAK = """
    import socket, sys
    for data in (b"", b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n", b"\\x00" * 100_000):
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as sock:
            answer = b""
            try:
                sock.sendall(data)
                if not data:
                    sock.shutdown(socket.SHUT_WR)
                while more := sock.recv(1000):
                    answer += more
            except ConnectionError:
                pass
            # At most an alert of TLS: no frame, no text.
            print(len(answer) < 20 or answer[:200])
"""
SOCKETS = """
    import re
    found = set()
    for name in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{name}").read().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                address, _, port = words[1].partition(":")
                found.add((address, int(port, 16)))
    print(sorted(found))
"""


def listening(machine: Machine) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = eval(machine.python(SOCKETS).ok())
    return found


def test_plain_clients_are_refused(cluster: Cluster) -> None:
    driver = cluster.up(1)
    stranger = cluster.nodes[2]
    output = stranger.python(SPEAK, cluster.head.address, str(PORT)).ok()
    assert output.split("\n")[:3] == ["True"] * 3, output
    driver.alive("machine1", "machine2")
    assert driver.ask("ray.get(where.options(**on('machine2')).remote())") == "'machine2'"
    # Besides its port the head opens nothing but the port of its own node, and nothing on all addresses.
    own = "".join(f"{int(part):02X}" for part in reversed(cluster.head.address.split(".")))
    found = listening(cluster.head)
    assert (own, PORT) in found and all(address in (own, "0100007F") for address, _ in found), found
    cluster.down(driver)


@pytest.mark.cluster_scene
def test_a_closed_port_is_named(cluster: Cluster) -> None:
    stranger = cluster.nodes[0]
    program = cluster.join(stranger, "--timeout", "1")
    assert program.end() == 1
    assert "refuse" in program.err and cluster.address in program.err, program.story()
    cluster.network.cut(cluster.head)
    program = cluster.join(stranger, "--timeout", "2")
    assert program.end() == 1
    assert "no answer" in program.err and cluster.address in program.err, program.story()
    cluster.gone(stranger)


def test_a_port_that_is_taken_is_named(cluster: Cluster) -> None:
    listen = "import socket, sys; s = socket.create_server(('', int(sys.argv[1]))); print('on', flush=True); input()"
    holder = cluster.head.python(listen, str(PORT))
    holder.wait_for_output("^on$")
    program = cluster.start_head()
    assert program.end() == 1
    assert str(PORT) in program.err and "use" in program.err, program.story()
    holder.write_line("")
    holder.ok()
    cluster.gone(cluster.head)


@pytest.mark.cluster_scene
def test_a_killed_node_is_noticed_at_once(cluster: Cluster) -> None:
    driver = cluster.up(2)
    driver.ask("there = Counter.options(**on('machine3')).remote()")
    assert driver.ask("ray.get(there.add.remote(1))") == "1"
    driver.ask("kept = [make.options(**on('machine3')).remote(8_000_000)]")
    driver.ask("ray.wait(kept, fetch_local=False)")
    begin = cluster.send(cluster.nodes[1], signal.SIGKILL)
    noticed = driver.alive("machine1", "machine2") - begin
    assert noticed < 0.2 + SLACK_S, f"noticed after {noticed:.2f} s"
    assert "ActorDiedError" in driver.failure("ray.get(there.add.remote(1))")
    cluster.gone(cluster.nodes[1])
    # The value's task runs again as soon as the machine is back.
    cluster.join(cluster.nodes[1]).ok()
    driver.alive("machine1", "machine2", "machine3")
    assert driver.ask("int(ray.get(kept[0]).sum())") == str(sum(range(1_000_000)))
    cluster.down(driver)
