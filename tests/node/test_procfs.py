"""Readings from control groups on trees of fake files, as containers of several kinds have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skate import procfs
from skate.node.memory import memory_readings

GIB = 1 << 30


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def version_2(path: str, **files: str) -> dict[str, str]:
    """The files of a machine with cgroup v2; keys are paths below the top, with _ for / and a double one for a dot."""
    made = {"proc/self/cgroup": f"0::{path}\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}
    made |= {f"sys/fs/cgroup/{key.replace('__', '.').replace('_', '/')}": text for key, text in files.items()}
    return made


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        (version_2("/"), None),
        (version_2("/", cpu__max="max 100000\n"), None),
        (version_2("/", cpu__max="250000 100000\n"), 2.5),
        (version_2("/", cpu__max="50000 100000\n"), 0.5),
        # The path is the host's, and the container sees its own group at the top.
        (version_2("/kubepods/pod1", cpu__max="150000 50000\n"), 3.0),
        # Of nested groups the tightest counts, whichever it is.
        (version_2("/a/b", a_cpu__max="300000 100000\n", a_b_cpu__max="max 100000\n"), 3.0),
        (version_2("/a/b", a_cpu__max="300000 100000\n", a_b_cpu__max="200000 100000\n"), 2.0),
        (version_2("/a/b", a_cpu__max="100000 100000\n", a_b_cpu__max="200000 100000\n"), 1.0),
        (version_2("/", cpu__max="broken\n"), None),
        (version_2("/", cpu__max="100000 0\n"), None),
    ],
)
def test_the_cpu_quota_of_version_2(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert procfs.cpu_quota(tree(tmp_path, files)) == quota


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(
    ("limit", "period", "quota"),
    [("-1", "100000", None), ("400000", "100000", 4.0), ("50000", "100000", 0.5)],
)
def test_the_cpu_quota_of_version_1(
    folder: str, limit: str, period: str, quota: float | None, tmp_path: Path
) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n",
        f"sys/fs/cgroup/{folder}/cpu.cfs_quota_us": f"{limit}\n",
        f"sys/fs/cgroup/{folder}/cpu.cfs_period_us": f"{period}\n",
    }
    assert procfs.cpu_quota(tree(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("affinity", "quota", "count"),
    [(8, "max", 8), (8, "250000", 2), (8, "50000", 1), (2, "400000", 2), (1, "100000", 1)],
)
def test_cpus_are_bounded_by_affinity_and_quota(
    affinity: int, quota: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)))
    root = tree(tmp_path, version_2("/", cpu__max=f"{quota} 100000\n"))
    assert procfs.cpu_count(root) == count


def machine(total: int) -> dict[str, str]:
    return {"proc/meminfo": f"MemTotal:       {total // 1024} kB\nMemFree:        0 kB\n"}


@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({}, 8 * GIB),
        (version_2("/", memory__max="max\n"), 8 * GIB),
        (version_2("/", memory__max=f"{GIB}\n"), GIB),
        (version_2("/", memory__max=f"{64 * GIB}\n"), 8 * GIB),
        # A group below the top has the limit, which the top does not show.
        (version_2("/a/b", a_b_memory__max=f"{2 * GIB}\n", memory__max="max\n"), 2 * GIB),
        (version_2("/a/b", a_memory__max=f"{GIB}\n", a_b_memory__max=f"{2 * GIB}\n"), GIB),
        (
            {
                "proc/self/cgroup": "5:memory:/docker/1\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GIB}\n",
            },
            3 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            8 * GIB,
        ),
    ],
)
def test_usable_memory_is_that_of_the_tightest_group(
    files: dict[str, str], usable: int, tmp_path: Path
) -> None:
    assert memory_readings.usable_bytes(tree(tmp_path, machine(8 * GIB) | files)) == usable


def test_the_monitor_and_the_settings_read_the_same_limits(tmp_path: Path) -> None:
    files = version_2("/a/b", a_b_memory__max=f"{2 * GIB}\n", a_b_memory__current="0\n", memory__max="max\n")
    root = tree(tmp_path, machine(8 * GIB) | files)
    assert memory_readings.Limits(root).groups[0].limit() == memory_readings.usable_bytes(root)


def test_the_state_and_the_parent_of_a_process() -> None:
    # A name with brackets and spaces does not shift the fields.
    text = "import os, ctypes; ctypes.CDLL(None).prctl(15, b'a) Z (b', 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        fields = procfs.stat(child.pid)
        assert fields[procfs.STATE] in (b"S", b"R", b"D")
        assert int(fields[procfs.PARENT]) == os.getpid()
        assert child.pid in procfs.processes()
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert procfs.stat(child.pid) == []
    assert procfs.read(f"/proc/{child.pid}/stat") == b""


def test_a_number_behind_a_name() -> None:
    text = b"first 1\nfirst_more 2\nlast 3 kB"
    assert procfs.field(text, b"first ") == 1
    assert procfs.field(text, b"first_more ") == 2
    assert procfs.field(text, b"last ") == 3
    assert procfs.field(text, b"ast ") is None
