"""The settings of a driver for workers on other machines."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from skate.node.job_views import JobViews, packed
from skate.node.network import _check_python
from skate.node.settings import Settings
from skate.node.worker.zygote_spawn import PYTHON
from skate.protocol.effects import AdoptJob

OWN = {
    "sys_path": ["/node/lib", os.path.dirname(os.__file__)],
    "stdlib": os.path.dirname(os.__file__),
    "environ": {"HOME": "/home/node", "OMP_NUM_THREADS": "1", "PATH": "/bin"},
    "cwd": "/",
}


class Output:
    """Takes the place of the output of workers."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def pipes(self, cid: int, job: str = "") -> tuple[int, int]:
        return cid, cid


class Host:
    """A node with its own settings."""

    neighbours = None
    snapshot: Any = None

    def __init__(self) -> None:
        self.zygote_config = OWN
        self.output: Any = Output()
        self.settings = Settings.of("local", {"_node_ip_address": "10.0.0.7"})


def greeting(folder: Path) -> dict[str, Any]:
    """Return the settings of a driver whose folder is `folder`."""
    return {
        "sys_path": [str(folder), "/gone/lib", os.path.dirname(os.__file__)],
        "stdlib": os.path.dirname(os.__file__),
        "environ": {
            "HOME": "/home/me",
            "AWS_SECRET_ACCESS_KEY": "s",
            "CUDA_VISIBLE_DEVICES": "0",
            "RAY_ADDRESS": "a",
            "RAY_AUTH_TOKEN": "t",
            "RAY_DEDUP_LOGS": "0",
            "SKATE_TMPDIR": "/x",
            "NCCL_DEBUG": "INFO",
            "HF_HOME": "/hf",
            "OMP_NUM_THREADS": "4",
        },
        "cwd": str(folder),
        "preload": ["json"],
        "main": str(folder / "main.py"),
        "namespace": "n",
        "python": ["/gone/python"],
        "command": "main.py",
    }


def adopted(folder: Path, local: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of workers on another node, and their interpreter."""
    view, local_view = packed(greeting(folder))
    host = Host()
    views = JobViews(host)
    views.adopt(AdoptJob("00010001", 5, view, local_view if local else b""))
    assert "00010001" in views and host.output.places == {"00010001": ", ip=10.0.0.7"}
    config, _ = views.config_of("00010001")
    assert (config["job"], config["realm"], config["namespace"]) == (b"\0\1\0\1", "00010001", "n")
    return config, views.python_of("00010001")


def test_another_machine_gets_the_variables_of_a_list_and_what_exists_there(tmp_path: Path) -> None:
    folder = tmp_path / "driver"
    config, python = adopted(folder, local=False)
    assert config["environ"] == {
        "HOME": "/home/node",
        "PATH": "/bin",
        "RAY_DEDUP_LOGS": "0",
        "NCCL_DEBUG": "INFO",
        "HF_HOME": "/hf",
        "OMP_NUM_THREADS": "4",
    }
    assert config["sys_path"] == [os.path.dirname(os.__file__), "/node/lib"]
    assert (config["cwd"], config["main"], python) == ("/", None, PYTHON)


def test_paths_are_used_where_they_exist(tmp_path: Path) -> None:
    (tmp_path / "main.py").touch()
    config, _ = adopted(tmp_path, local=False)
    assert config["sys_path"][0] == str(tmp_path)
    assert (config["cwd"], config["main"]) == (str(tmp_path), str(tmp_path / "main.py"))


def test_the_same_machine_gets_everything(tmp_path: Path) -> None:
    config, python = adopted(tmp_path / "driver", local=True)
    wanted = greeting(tmp_path / "driver")
    assert config["environ"] == wanted["environ"] and config["sys_path"] == wanted["sys_path"]
    assert (config["cwd"], config["main"], python) == (wanted["cwd"], wanted["main"], ["/gone/python"])


def test_nothing_private_is_packed_for_other_machines(tmp_path: Path) -> None:
    view, _ = packed(greeting(tmp_path))
    assert sorted(msgpack.unpackb(view)["environ"]) == [
        "HF_HOME",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "RAY_DEDUP_LOGS",
    ]


def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _check_python(list(sys.version_info[:2]))
    _check_python(None)
    with pytest.raises(ValueError, match=r"the head runs Python 2\.7, and this node Python 3"):
        _check_python([2, 7])
    monkeypatch.setenv("RAY_IGNORE_VERSION_MISMATCH", "1")
    _check_python([2, 7])
