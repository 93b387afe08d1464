"""`skate up` with a real OpenSSH server on each machine, from a machine that is not in the cluster."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.namespaces import Machine, Network
from tests.conformance.waiting import wait_for

SSHD = "/usr/sbin/sshd"
HOME = "/tmp/home"
NODE = "--num-cpus=1 --num-gpus=0 --object-store-memory=100000000"
#: A root user whose home folder is the machine's own, and a `skate` that only the profile of that user finds.
PREPARE = f"""
    set -e
    mkdir -p {HOME}/.ssh /tmp/bin
    sed 's|^root:.*|root:x:0:0:root:{HOME}:/bin/bash|' /etc/passwd > /tmp/passwd
    mount --bind /tmp/passwd /etc/passwd
    printf '#!/bin/sh\\nexec {sys.executable} -m skate "$@"\\n' > /tmp/bin/skate
    chmod 755 /tmp/bin/skate
    printf 'export PATH=/tmp/bin:$PATH PYTHONPATH=%s TMPDIR=/tmp\\n' "$PYTHONPATH" > {HOME}/.bash_profile
    chmod 700 {HOME} {HOME}/.ssh
"""
SERVE = f"""
    set -e
    mount -t tmpfs none /run
    mkdir -m 755 /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key
    printf 'HostKey /tmp/host_key\\nPermitRootLogin prohibit-password\\nUsePAM no\\nPidFile none\\n' > /tmp/sshd_config
    exec {SSHD} -D -e -f /tmp/sshd_config
"""
FILE = f"""
    cluster_name: scene
    provider: {{type: local, head_ip: 10.77.0.1, worker_ips: [10.77.0.2, 10.77.0.3]}}
    auth: {{ssh_user: root, ssh_private_key: ~/.ssh/id_ed25519}}
    file_mounts: {{"~/data": /tmp/data}}
    setup_commands: ["cat ~/data/note >> ~/notes"]
    head_start_ray_commands: ["ray stop", "ray start --head --port=6379 {NODE}"]
    worker_start_ray_commands: ["ray stop", "ray start --address=$RAY_HEAD_IP:6379 {NODE}"]
"""
PROGRAM = """
    import socket, sys
    import ray

    ray.init()
    assert len([node for node in ray.nodes() if node["Alive"]]) == 3, ray.nodes()

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def where():
        return socket.gethostname()

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
    places = [where.options(scheduling_strategy=On(node["NodeID"], False)).remote() for node in ray.nodes()]
    print(sorted(ray.get(places)), sys.argv[1:], flush=True)
"""
EVERYWHERE = "['machine1', 'machine2', 'machine3']"


def sh(machine: Machine, text: str) -> str:
    return machine.start("sh", "-c", textwrap.dedent(text)).ok()


class Scene(NamedTuple):
    """A machine outside of the cluster, and those that `skate up` reaches from it."""

    laptop: Machine
    servers: list[Machine]


@pytest.fixture
def scene(network: Callable[..., Network]) -> Scene:
    """Return a machine with the key of three others, which run sshd."""
    if not os.path.exists(SSHD) or shutil.which("rsync") is None:
        pytest.skip("needs Debian's openssh-server and rsync")
    *servers, laptop = network(4).machines
    for machine in (*servers, laptop):
        sh(machine, PREPARE)
    sh(laptop, f"ssh-keygen -q -t ed25519 -N '' -f {HOME}/.ssh/id_ed25519")
    key = laptop.path("home/.ssh/id_ed25519.pub").read_text()
    for machine in servers:
        machine.path("home/.ssh/authorized_keys").write_text(key)
        machine.start("sh", "-c", textwrap.dedent(SERVE)).wait_for_output(
            "Server listening on 0.0.0.0", on_stderr=True
        )
    laptop.path("data").mkdir()
    laptop.path("data/note").write_text("noted\n")
    laptop.path("cluster.yaml").write_text(textwrap.dedent(FILE))
    laptop.path("program.py").write_text(textwrap.dedent(PROGRAM))
    return Scene(laptop, servers)


def nodes(machine: Machine) -> list[str]:
    return [
        words
        for words in machine.processes().values()
        if " -m skate start " in words or "skate.node" in words
    ]


def ended(machine: Machine) -> bool:
    return not nodes(machine)


@pytest.mark.cluster_scene
def test_a_cluster_starts_runs_programs_and_stops_by_ssh(scene: Scene) -> None:
    laptop, servers = scene
    up = laptop.skate("up", "/tmp/cluster.yaml", "-y").ok(120)
    assert "the head 10.77.0.1 and 2 of 2 workers are up" in up

    out = laptop.skate("submit", "/tmp/cluster.yaml", "/tmp/program.py", "--", "--flag", "a b").ok(120)
    assert f"{EVERYWHERE} ['--flag', 'a b']" in out

    token = laptop.path("home/.skate/clusters/scene.token")
    for machine in servers:
        assert machine.path("home/notes").read_text() == "noted\n"
        there = machine.path("home/.skate/clusters/scene.token")
        assert there.read_text() == token.read_text()
        assert there.stat().st_mode & 0o777 == 0o600
        assert not any(token.read_text().strip() in words for words in machine.processes().values())

    # A program on the laptop, with the token that `up` leaves there.
    text = PROGRAM.replace("ray.init()", "import skate as ray; ray.init('ray://10.77.0.1:6379')").replace(
        "== 3", ">= 3"
    )
    text = text.replace("    import ray\n", "").replace(
        "in ray.nodes()]", "in ray.nodes() if node['Resources'].get('CPU')]"
    )
    text = text.replace("from ray.util", "from skate.util")
    own = laptop.python(text, SKATE_AUTH_TOKEN_PATH=f"{HOME}/.skate/clusters/scene.token")
    assert EVERYWHERE in own.ok(120)

    failed = laptop.skate("exec", "/tmp/cluster.yaml", "hostname; exit 5")
    assert (failed.end(60), failed.out) == (5, "machine1\n")

    # A second `up` leaves the nodes alone, and repeats the setup.
    before = [nodes(machine) for machine in servers]
    laptop.skate("up", "/tmp/cluster.yaml", "-y", "--no-restart").ok(120)
    assert [nodes(machine) for machine in servers] == before and all(before)
    assert servers[0].path("home/notes").read_text() == "noted\n" * 2

    down = laptop.skate("down", "/tmp/cluster.yaml", "-y").ok(120)
    assert "3 of 3 nodes are stopped" in down
    for machine in servers:
        wait_for(partial(ended, machine), 20, f"the end of the node: {machine.processes()}")
        assert not machine.path("home/.skate/clusters/scene.token").exists()
    assert not token.exists()


GROW = """
    import os, socket
    import skate as ray
    from skate.autoscaler import sdk

    ray.init("ray://10.77.0.1:6379", log_to_driver=False)

    @ray.remote(num_cpus=1, resources={"room": 1})
    class Holder:
        def where(self):
            return socket.gethostname()

    holders = [Holder.remote() for _ in range(2)]
    print(sorted(ray.get([holder.where.remote() for holder in holders])), flush=True)
"""


@pytest.mark.cluster_scene
def test_workers_start_by_ssh_when_work_waits_and_end_after_it(scene: Scene) -> None:
    laptop, servers = scene
    text = textwrap.dedent(FILE).replace("--port=6379", "--port=6379 --labels=skate.io/autoscaler=on")
    text = text.replace("$RAY_HEAD_IP:6379", "$RAY_HEAD_IP:6379 --resources='{\\\"room\\\": 1}'")
    text += "min_workers: 0\nmax_workers: 2\n"
    laptop.path("cluster.yaml").write_text(text)
    assert "0 of 0 workers are up" in laptop.skate("up", "/tmp/cluster.yaml", "-y").ok(120)
    scaler = laptop.skate("autoscale", "/tmp/cluster.yaml", "--idle-timeout-minutes", "0.05")
    scaler.wait_for_output("has 0 to 2 workers")
    assert not nodes(servers[1])
    program = laptop.python(GROW, SKATE_AUTH_TOKEN_PATH=f"{HOME}/.skate/clusters/scene.token")
    assert "['machine2', 'machine3']" in program.ok(60), scaler.story()
    for machine in servers[1:]:
        wait_for(
            partial(ended, machine), 60, f"the end of an unused node: {machine.processes()}; {scaler.story()}"
        )
    assert nodes(servers[0])
    for pid in [pid for pid, words in laptop.processes().items() if " autoscale " in words]:
        os.kill(pid, signal.SIGTERM)
    scaler.ok()
    laptop.skate("down", "/tmp/cluster.yaml", "-y").ok(120)


@pytest.mark.cluster_scene
def test_a_changed_host_key_gets_no_token(scene: Scene) -> None:
    laptop, servers = scene
    known = laptop.path("home/.ssh/known_hosts")
    sh(laptop, f"ssh-keygen -q -t ed25519 -N '' -f /tmp/{secrets.token_hex(4)}")
    other = next(Path(str(laptop.path(""))).glob("*.pub")).read_text().split()
    known.write_text(f"10.77.0.1 {other[0]} {other[1]}\n")
    up = laptop.skate("up", "/tmp/cluster.yaml", "-y")
    assert up.end(60) == 1
    assert "no SSH connection to root@10.77.0.1" in up.err and "Host key verification failed" in up.err
    assert not servers[0].path("home/.skate").exists()
