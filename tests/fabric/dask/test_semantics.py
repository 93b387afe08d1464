"""The meaning of several nodes, as the conformance tests say it, with nodes that Dask.distributed connects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import skate as ray
from skate.cluster_utils import FABRIC, Cluster
from skate.fabric.mesh_head import MeshHead

ROOT = Path(__file__).parents[3]
#: One or two tests of each kind: resources, affinity, groups, values, names, several drivers.
SELECTED = (
    "every_node or affinity_of or overflows or travel or reaches_every or call_each_other or names_are or cancelled "
    "or outlives or owner_died"
)


def conformance(*words: str) -> int:
    """Run conformance tests on this fabric; return how many have passed, which must be all."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    last = done.stdout.splitlines()[-1]
    found = re.match(r"(\d+) passed", last)
    assert found is not None and "skipped" not in last, last
    return int(found.group(1))


def test_a_cluster_on_one_machine_can_have_nodes_of_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FABRIC, "dask")
    cluster = Cluster(initialize_head=True)
    try:
        node = cluster.add_node(resources={"there": 1})
        assert isinstance(cluster._fabric, MeshHead)
        assert list(cluster._fabric.carrier.members()) == [node.node_id]
        cluster.connect()

        @ray.remote(resources={"there": 1})
        def where() -> str:
            return ray.get_runtime_context().get_node_id()

        assert ray.get(where.remote(), timeout=60) == node.node_id
    finally:
        cluster.shutdown()


def test_another_fabric_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FABRIC, "mpi")
    with pytest.raises(ValueError, match=f"{FABRIC} may be 'dask'.*got 'mpi'"):
        Cluster(initialize_head=True)


def test_a_head_that_cannot_listen_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from skate.fabric.dask.carrier import HeadCarrier

    def start(self: HeadCarrier, timeout: float = 0.0) -> None:
        raise ConnectionError("no port is free")

    monkeypatch.setenv(FABRIC, "dask")
    monkeypatch.setattr(HeadCarrier, "start", start)
    with pytest.raises(ConnectionError, match="no port is free"):
        Cluster(initialize_head=True)


def test_several_nodes_mean_the_same_on_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FABRIC, "dask")
    passed = conformance("tests/conformance/test_cluster.py", "-k", SELECTED)
    assert passed >= 10


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_of_several_nodes_means_the_same_on_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FABRIC, "dask")
    files = [str(each) for each in sorted((ROOT / "tests/conformance").glob("test_cluster*.py"))]
    assert conformance(*files) > 70
