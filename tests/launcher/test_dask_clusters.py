"""Nodes of Skate on clusters that Dask's own classes start."""

from __future__ import annotations

import inspect
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import dask.config
import distributed
from distributed import LocalCluster, Scheduler, SSHCluster, Worker
from distributed.deploy.spec import SpecCluster

import skate as ray
from skate.launcher import dask_clusters
from tests.conformance.waiting import wait_for

LONG_S = 60.0
SSHD = "/usr/sbin/sshd"
SMALL = ["--num-gpus=0", "--object-store-memory=100000000"]
#: For schedulers in this process and elsewhere: no page of HTTP on a fixed port.
QUIET = {**dask_clusters.HEAD, "dashboard": False, "dashboard_address": None}


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with dask.config.set({dask_clusters.NODE_OPTIONS: SMALL, dask_clusters.HEAD_OPTIONS: SMALL[1:]}):
        yield


def cpus() -> float:
    return float(ray.cluster_resources().get("CPU", 0.0))


def place() -> str:
    return str(ray.get_runtime_context().get_node_id())


def nodes_of_skate() -> set[str]:
    """Return the pids of the processes of nodes that this module has started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if b"start\0--block\0--temp-dir=" in line:
            found.add(entry.parent.name)
    return found


def use(cluster: Any) -> None:
    """Run a task on a node of the cluster, and wait for a second node."""
    with ray.init(dask_clusters.address(cluster), log_to_driver=False):
        task: Any = ray.remote(place)
        assert ray.get(task.remote(), timeout=LONG_S) in {node["NodeID"] for node in ray.nodes()}
        cluster.scale(2)
        wait_for(lambda: cpus() == 2.0, LONG_S, "a second node")
        cluster.scale(1)
        wait_for(lambda: cpus() == 1.0, LONG_S, "the end of a node")


def test_dask_has_the_names_that_this_module_uses() -> None:
    assert {"preload"} <= set(inspect.signature(Scheduler.__init__).parameters)
    assert {"keys", "value"} <= set(inspect.signature(Scheduler.set_metadata).parameters)
    assert {"keys", "default"} <= set(inspect.signature(Scheduler.get_metadata).parameters)
    assert "get_metadata" in inspect.getsource(Scheduler.__init__)
    assert inspect.iscoroutinefunction(Worker.start_unsafe) and inspect.iscoroutinefunction(Worker.close)
    assert "total_resources" in inspect.getsource(distributed.worker_state_machine.WorkerState)
    assert "memory_limit" in inspect.getsource(distributed.worker_memory.WorkerMemoryManager)
    assert "self.scheduler_comm" in inspect.getsource(SpecCluster)
    assert {"worker_class", "scheduler_kwargs"} <= set(inspect.signature(LocalCluster).parameters)
    assert {"worker_class", "scheduler_options"} <= set(inspect.signature(SSHCluster).parameters)


def test_a_local_cluster_carries_nodes() -> None:
    before = nodes_of_skate()
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        worker_class=dask_clusters.Node,
        scheduler_kwargs=dask_clusters.HEAD,
        dashboard_address=None,
    ) as cluster:
        assert len(cluster.scheduler.workers) == 1
        use(cluster)
        # Dask counts workers whose nodes run: one that has lost its node ends.
        wait_for(lambda: len(cluster.workers) == 1, LONG_S, "the end of the other worker")
        (worker,) = cluster.workers.values()
        os.kill(worker._process.pid, signal.SIGKILL)
        wait_for(lambda: not cluster.scheduler.workers, LONG_S, "the end of the worker without a node")
    wait_for(lambda: nodes_of_skate() <= before, LONG_S, "the end of all nodes")


def test_a_scheduler_without_a_head_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_clusters, "START_SECONDS", 0.0)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        pytest.raises(RuntimeError, match=r"has no head of Skate: start it with `--preload skate\.launcher"),
    ):
        dask_clusters.address(cluster)


@pytest.mark.cluster_scene
def test_ssh_starts_and_ends_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("asyncssh", reason="SSHCluster needs asyncssh")
    if not os.path.exists(SSHD) or os.getuid():
        pytest.skip("needs Debian's openssh-server, and root to start it")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    port = 20000 + os.getpid() % 10000
    path = ":".join(entry for entry in sys.path if entry)
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\n"
        f"StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\nSetEnv PYTHONPATH={path}\n"
    )
    # A /run of its own: sshd insists on a folder there.
    serve = f"mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec {SSHD} -D -e -f {tmp_path}/config"
    server = subprocess.Popen(["unshare", "-m", "sh", "-c", serve], stderr=subprocess.PIPE, text=True)
    before = nodes_of_skate()
    try:
        assert server.stderr is not None
        assert any("Server listening" in line for line in server.stderr)
        with (
            SSHCluster(
                ["127.0.0.1", "127.0.0.1"],
                connect_options={
                    "port": port,
                    "username": "root",
                    "client_keys": [str(tmp_path / "user")],
                    "known_hosts": None,
                },
                worker_class=f"{dask_clusters.PRELOAD}.Node",
                worker_options={"nthreads": 1},
                scheduler_options={**QUIET, "host": "127.0.0.1"},
                remote_python=sys.executable,
            ) as cluster,
            ray.init(dask_clusters.address(cluster), log_to_driver=False),
        ):
            task: Any = ray.remote(place)
            assert ray.get(task.remote(), timeout=LONG_S)
            assert cpus() == 1.0
        # Dask kills what it has started by SSH; the nodes end cleanly all the same.
        wait_for(lambda: nodes_of_skate() <= before, LONG_S, "the end of all nodes")
    finally:
        server.terminate()
        server.communicate()


@pytest.mark.cluster_scene
def test_jobs_of_slurm_start_and_end_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue", reason="SLURMCluster needs dask-jobqueue")
    programs = {
        "sbatch": 'setsid sh "$1" > "$FAKE_SLURM/log" 2>&1 &\necho "Submitted batch job $!"',
        "scancel": 'kill -- "-$1"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path))
    monkeypatch.setenv("DASK_SKATE__NODE_OPTIONS", repr(SMALL))
    before = nodes_of_skate()
    with jobqueue.SLURMCluster(
        cores=1,
        memory="1 GiB",
        processes=1,
        nanny=False,
        python=sys.executable,
        worker_extra_args=dask_clusters.WORKER_ARGUMENTS,
        scheduler_options={**QUIET, "host": "127.0.0.1"},
    ) as cluster:
        assert (
            f"{sys.executable} -m distributed.cli.dask_worker tcp://127.0.0.1:" in cluster.job_script()
            and "--nthreads 1 --memory-limit 1.00GiB --no-nanny" in cluster.job_script()
            and "--worker-class skate.launcher.dask_clusters.Node" in cluster.job_script()
        ), cluster.job_script()
        cluster.scale(1)
        with ray.init(dask_clusters.address(cluster), log_to_driver=False):
            wait_for(lambda: cpus() == 1.0, LONG_S, "the node of a job")
            assert ray.nodes()[-1]["Resources"]["memory"] == 2**30
            cluster.scale(0)
            wait_for(lambda: cpus() == 0.0, LONG_S, "the end of the job's node")
    wait_for(lambda: nodes_of_skate() <= before, LONG_S, "the end of the head")


@pytest.mark.cluster_scene
def test_the_operator_of_kubernetes_gets_the_command_of_nodes() -> None:
    operator = pytest.importorskip("dask_kubernetes.operator", reason="KubeCluster needs dask-kubernetes")
    spec = operator.make_cluster_spec(
        name="skate",
        image="registry/skate",
        n_workers=3,
        worker_command=["dask", "worker", *dask_clusters.WORKER_ARGUMENTS, "--no-nanny"],
        env={"DASK_DISTRIBUTED__SCHEDULER__PRELOAD": dask_clusters.PRELOAD},
    )["spec"]
    worker = spec["worker"]["spec"]["containers"][0]
    assert (
        worker["args"]
        == textwrap.dedent(
            """\
        dask worker --worker-class skate.launcher.dask_clusters.Node --no-nanny --name $(DASK_WORKER_NAME)
        --dashboard --dashboard-address 8788"""
        ).split()
    )
    scheduler = spec["scheduler"]["spec"]["containers"][0]
    assert scheduler["env"] == [
        {"name": "DASK_DISTRIBUTED__SCHEDULER__PRELOAD", "value": dask_clusters.PRELOAD}
    ]
