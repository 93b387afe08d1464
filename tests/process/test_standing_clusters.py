"""A cluster of standing nodes, as `skate start --head --port` and `skate start --address` make it, here on loopback."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import SOURCE, Program, listening_ports
from tests.process.standing import Node

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

HEAD_IP, MEMBER_IP = "127.0.0.1", "127.0.0.2"
PROGRAM = """
    import os, sys, time
    import numpy as np
    from waiting import wait_for

    ray.init(namespace="shared")
    me = os.environ["COLOUR"]

    @ray.remote(num_cpus=0)
    def look(text):
        print("said", text)
        return os.environ["COLOUR"], ray.util.get_node_ip_address()

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, by=1):
            self.count += by
            return self.count

        def total(self, values):
            return float(values.sum())

    def on(ip):
        return {f"node:{ip}": 0.001}
"""


class Pair:
    """The head and one more node."""

    def __init__(self, folder: Path) -> None:
        self.head = Node(folder / "head")
        self.member = Node(folder / "member")
        self.banner = ""

    @property
    def address(self) -> str:
        """The address of the cluster."""
        return (self.head.folder / "cluster").read_text()

    @property
    def token(self) -> tuple[str, str]:
        """The flag with the file of the token."""
        return "--token-file", str(self.head.folder / "cluster-token")

    def start(self) -> None:
        """Start both."""
        self.banner = self.head.start("--port", "0", "--node-ip-address", HEAD_IP)
        self.join()

    def join(self) -> str:
        """Start the member."""
        flags = (*self.token, "--node-ip-address", MEMBER_IP)
        return self.member.start(*flags, role=f"--address={self.address}")

    def alive(self) -> list[str]:
        """Return the addresses of the living nodes, as the head knows them."""
        return sorted(node["address"] for node in self.head.status()["nodes"] if node["alive"])


def started_pair(folder: Path) -> Iterator[Pair]:
    made = Pair(folder)
    made.start()
    yield made
    made.member.kill()
    made.head.kill()


@pytest.fixture(scope="module")
def kept_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Return the cluster of all tests that leave it as it was."""
    yield from started_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return a cluster that a test may end."""
    yield from started_pair(tmp_path)


def test_two_drivers_on_two_nodes_share_a_cluster(kept_pair: Pair, program: Callable[..., Program]) -> None:
    """Each attaches to the node of its machine, without an address, and uses both nodes; actors are found by name."""
    assert f"--address={kept_pair.address} --token-file {kept_pair.token[1]}" in kept_pair.banner
    text = (
        PROGRAM
        + """
    other = {"red": "blue", "blue": "red"}[me]
    for ip in IPS:
        assert ray.get(look.options(resources=on(ip)).remote(f"{me} at {ip}")) == (me, ip)
    actors = [Counter.options(name=f"{me} {ip}", resources=on(ip)).remote() for ip in IPS]
    assert ray.get([each.add.remote() for each in actors]) == [1, 1]
    values = ray.put(np.ones(2_000_000))
    assert ray.get([each.total.remote(values) for each in actors]) == [2e6, 2e6]

    def found(name):
        try:
            return ray.get_actor(name)
        except ValueError:
            return None

    others = [wait_for(lambda: found(f"{other} {ip}"), 20, "the other driver's actor") for ip in IPS]
    for each in others:
        ray.get(each.add.remote(10))
    wait_for(lambda: ray.get([each.add.remote(0) for each in actors]) == [11, 11], 20, "calls of the other")
    print("done", ray.get_runtime_context().get_job_id(), flush=True)
    sys.stdin.readline()
    """.replace("IPS", repr((HEAD_IP, MEMBER_IP)))
    )
    drivers = [
        program(text, COLOUR=who, **node.environment)
        for who, node in (("red", kept_pair.head), ("blue", kept_pair.member))
    ]
    jobs = {driver.wait_for_output(r"^done .*").split()[1] for driver in drivers}
    assert len(jobs) == 2
    output = kept_pair.head.command("status").stdout
    assert all(f"  job {job}  " in output for job in jobs) and f"at the node {MEMBER_IP}" in output, output
    for driver, who, away in zip(drivers, ("red", "blue"), (MEMBER_IP, HEAD_IP), strict=True):
        driver.write_line("end")
        assert driver.end() == 0, driver.story()
        assert f", ip={away}) said {who} at {away}\n" in driver.out, driver.story()
    wait_for(lambda: not kept_pair.head.status()["actors"], 5, "the end of the actors")
    for node in (kept_pair.head, kept_pair.member):
        wait_for(lambda node=node: not node.status()["workers"], 5, "the end of the workers")


def test_status_shows_the_nodes_with_their_addresses(kept_pair: Pair) -> None:
    for node in (kept_pair.head, kept_pair.member):
        output = node.command("status").stdout
        assert f"in the cluster of {kept_pair.address}\n" in output and "CPU: 0 of 8" in output
        assert f"  {HEAD_IP}  alive" in output and f"  {MEMBER_IP}  alive" in output


def test_output_is_read_of_all_nodes_by_a_cursor(kept_pair: Pair, program: Callable[..., Program]) -> None:
    """A number belongs to a process of a node: another node may have one with the same pid."""
    text = (
        PROGRAM
        + """
    from skate.util.state import get_log, overview

    @ray.remote(num_cpus=0)
    def said_by(text):
        print("said", text)
        return os.getpid()

    # The nodes keep output of earlier programs as well.
    pids = {ip: ray.get(said_by.options(resources=on(ip)).remote(f"at {ip}")) for ip in IPS}
    are_here = lambda row: row["stream"] == "out" and row["end"] and pids.get(row["node_ip"]) == row["pid"]
    find = lambda: [row for row in overview.kept(10) if are_here(row)]
    streams = wait_for(lambda: found if len(found := find()) >= 2 else None, 20, "the output of both nodes")
    of_node = {row["node_ip"]: row for row in streams}
    name = lambda row, node: f"{row['node_id'][:16]}:{row['pid']}.out" if node else f"{row['pid']}.out"

    def said(cursor):
        return sorted((row["node_ip"], *row["lines"]) for row in overview.lines_after(cursor, 10))

    both = [(ip, f"said at {ip}") for ip in IPS]
    assert said(",".join(f"{name(of_node[ip], True)}=0" for ip in IPS)) == both
    assert said(",".join(f"{name(of_node[ip], False)}=0" for ip in IPS)) == both
    assert said(f"{name(of_node[IPS[1]], True)}=0") == both[1:]
    assert said(f"{name(of_node[IPS[1]], True)}=1") == []
    wrong = f"{of_node[IPS[0]]['node_id'][:16]}:{of_node[IPS[1]]['pid']}.out=0"
    assert said(wrong) == [], "that pid is of a process of the other node"
    assert "".join(get_log(pid=of_node[IPS[1]]["pid"])) == f"said at {IPS[1]}\\n"
    """.replace("IPS", repr([HEAD_IP, MEMBER_IP]))
    )
    driver = program(text, COLOUR="red", **kept_pair.head.environment)
    assert driver.end() == 0, driver.story()


LOOKER = """
    import os, time
    ray.init(address=os.environ.get("WHERE"))

    @ray.remote(num_cpus=0, max_retries=0, resources={"node:127.0.0.2": 0.001})
    def sleep():
        print("sleeps", flush=True)
        time.sleep(100)

    try:
        ray.get(sleep.remote())
    except ray.exceptions.RayError as error:
        print("error", type(error).__name__, error, flush=True)
"""


def test_a_stopped_member_leaves_the_cluster(pair: Pair, program: Callable[..., Program]) -> None:
    text = (
        LOOKER
        + """
    (dead,) = [node for node in ray.nodes() if not node["Alive"]]
    assert (dead["NodeManagerAddress"], dead["DeathReason"]) == ("127.0.0.2", 1), dead
    assert dead["DeathReasonMessage"] == "was stopped"
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    """
    )
    driver = program(text, WHERE=pair.address, **pair.head.environment)
    driver.wait_for_output("sleeps")
    assert "stopped" in pair.member.stop()
    assert "NodeDiedError" in driver.wait_for_output("^error.*") and "was stopped" in driver.out
    assert driver.end() == 0, driver.story()
    assert pair.alive() == [HEAD_IP] and not pair.member.folder.exists()
    pair.join()
    assert pair.alive() == [HEAD_IP, MEMBER_IP]


def test_a_killed_member_is_noticed(pair: Pair, program: Callable[..., Program]) -> None:
    driver = program(LOOKER, **pair.head.environment)
    driver.wait_for_output("sleeps")
    os.kill(pair.member.pid, signal.SIGKILL)
    assert "NodeDiedError" in driver.wait_for_output("^error.*", 5)
    assert driver.end() == 0, driver.story()
    assert pair.alive() == [HEAD_IP]
    pair.member.gone()


def test_members_end_with_a_killed_head(pair: Pair, program: Callable[..., Program]) -> None:
    driver = program(LOOKER, **pair.member.environment)
    driver.wait_for_output("sleeps")
    os.kill(pair.head.pid, signal.SIGKILL)
    output = driver.wait_for_output("^error.*", 10)
    # Its connections end at once; a node that is slow to see that may first notice that it hears nothing.
    assert re.search("it has left its cluster: .*(lost the head|the head has confirmed nothing)", output), (
        driver.story()
    )
    assert driver.end() == 0, driver.story()
    pair.member.gone(5)
    assert "leaves its cluster" in (pair.member.folder / "node.log").read_text()


def test_a_supervisor_learns_that_a_node_has_lost_its_cluster(pair: Pair, tmp_path: Path) -> None:
    flags = (f"--address={pair.address}", *pair.token, "--node-ip-address", "127.0.0.3", "--num-cpus", "1")
    folder = str(tmp_path / "supervised")
    process = subprocess.Popen(
        [sys.executable, "-m", "skate", "start", *flags, "--block", "--temp-dir", folder],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(pair.alive()) == 3, 20, "the third node")
    os.kill(pair.head.pid, signal.SIGKILL)
    _, output = process.communicate(timeout=20)
    assert process.returncode == 3 and "lost the head" in output, output


def test_members_end_with_a_stopped_head(pair: Pair) -> None:
    pair.head.stop()
    pair.member.gone(5)
    assert not pair.member.folder.exists() and not pair.head.folder.exists()


# -- what goes wrong at the start


def refused(node: Node, *flags: str, **environment: str) -> str:
    """Return the error of a node that cannot start; nothing of it stays."""
    done = node.command("start", "--num-cpus", "1", *flags, check=False, **environment)
    assert done.returncode == 1 and not done.stdout, done
    assert not node.folder.exists() and not node.processes()
    return done.stderr


def test_each_cause_is_said_apart(node: Node, tmp_path: Path) -> None:
    good, short = tmp_path / "good", tmp_path / "short"
    good.write_text(os.urandom(32).hex())
    short.write_text("secret")
    home = {"HOME": str(tmp_path)}
    with socket.socket() as taken:
        taken.bind((HEAD_IP, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        here = ("--node-ip-address", HEAD_IP)
        output = refused(node, "--head", "--port", port, *here, "--token-file", str(good))
        assert f"port {port} of {HEAD_IP} is in use by process {os.getpid()}" in output, output
    joins = f"--address={HEAD_IP}:{port}"
    assert "requires its token" in refused(node, joins, *here, **home)
    assert "cannot be read" in refused(node, joins, *here, "--token-file", str(tmp_path / "none"))
    assert "too weak" in refused(node, joins, *here, "--token-file", str(short))
    output = refused(node, joins, *here, "--token-file", str(good), "--timeout", "0.5")
    assert f"nothing listens on port {port}" in output, output
    assert "HOST:PORT" in refused(node, "--address=somewhere")
    assert "use one of them" in refused(node, "--head", "--address=127.0.0.1:1")


def test_another_token_is_refused(node: Node, tmp_path: Path) -> None:
    node.start("--port", "0", "--node-ip-address", HEAD_IP)
    other = tmp_path / "other"
    other.write_text(os.urandom(32).hex())
    joining = Node(tmp_path / "joining")
    address = (node.folder / "cluster").read_text()
    output = refused(
        joining, f"--address={address}", "--token-file", str(other), "--node-ip-address", HEAD_IP
    )
    assert "has another token" in output, output
    assert len(node.status()["nodes"]) == 1


def test_without_a_port_there_is_no_network(node: Node) -> None:
    """Nothing listens, and the node does not load Dask."""
    node.start()
    assert not [*listening_ports([*node.processes()])]
    code = "import sys, skate.node.standalone, skate.command.start; sys.exit('distributed' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=20).returncode == 0
    )
    maps = Path(f"/proc/{node.pid}/maps").read_text()
    assert "tornado" not in maps and "_ssl" not in maps
