"""Cluster files: what they may contain, and errors that name the way to go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skate.launcher.cluster_config import ClusterConfig, read

LOCAL = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2", "10.0.0.3"]}


def config(**more: Any) -> ClusterConfig:
    return read({"provider": LOCAL, **more})


def test_a_file_of_ray_is_read(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    path = tmp_path / "cluster.yaml"
    path.write_text(
        f"""
cluster_name: lab
provider:
    type: local
    head_ip: head.example
    worker_ips: [10.0.0.2, "fd00::3"]
auth:
    ssh_user: ubuntu
    ssh_private_key: {key}
max_workers: 2
min_workers: 1
upscaling_speed: 1.0
idle_timeout_minutes: 5
docker: {{}}
file_mounts: {{"~/data": {tmp_path}}}
cluster_synced_files: []
file_mounts_sync_continuously: False
rsync_exclude: ["**/.git"]
initialization_commands: [date]
setup_commands: [pip install a]
head_setup_commands: [pip install b]
worker_setup_commands: []
head_start_ray_commands:
    - source venv/bin/activate && ray stop
    - ulimit -c unlimited && ray start --head --port=6380 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
    - ray stop
    - ray start --address=$RAY_HEAD_IP:6380
"""
    )
    found = read(path)
    assert (found.name, found.head, found.workers) == ("lab", "head.example", ("10.0.0.2", "fd00::3"))
    assert (found.min_workers, found.started_workers, found.port) == (1, ("10.0.0.2",), 6380)
    assert (found.auth.user, found.auth.private_key) == ("ubuntu", str(key))
    assert found.on_head.setup == ("pip install a", "pip install b")
    assert found.on_workers.setup == ("pip install a",)
    assert found.on_head.initialization == found.on_workers.initialization == ("date",)
    # Nodes stop in the environment in which they start.
    assert found.on_head.stop == ("source venv/bin/activate && ray stop",)
    assert found.mounts.sources == {"~/data": str(tmp_path)}


def test_the_defaults_start_all_workers() -> None:
    found = config()
    assert (found.name, found.min_workers, found.port) == ("default", 2, 6379)
    assert found.on_head.start == ("skate stop", "skate start --head --port=6379")
    assert found.on_workers.start == ("skate stop", "skate start --address=$RAY_HEAD_IP:6379")
    assert found.on_workers.stop == ("skate stop",)


def test_the_command_line_replaces_values_of_the_file() -> None:
    found = read({"provider": LOCAL, "min_workers": 2}, name="other", min_workers=0, max_workers=1)
    assert (found.name, found.started_workers) == ("other", ())


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no provider": ({"provider": None}, "needs a provider"),
    "a cloud": ({"provider": {"type": "aws", "region": "us-west-2"}}, "'aws'.*no machines in a cloud.*type: local"),
    "kubernetes": ({"provider": {"type": "kuberay"}}, "skate manifest kubernetes"),
    "no head": ({"provider": {"type": "local"}}, "head_ip is missing"),
    "a coordinator": ({"provider": {"type": "local", "coordinator_address": "a:1"}}, "no coordinator server"),
    "a machine twice": ({"provider": {**LOCAL, "worker_ips": ["10.0.0.1"]}}, "10.0.0.1 is named twice"),
    "an option as an address": ({"provider": {**LOCAL, "head_ip": "-oProxyCommand=x"}}, "not an address"),
    "an unknown key": ({"head_setup_comands": []}, "do you mean head_setup_commands"),
    "node types": ({"available_node_types": {}}, "worker_ips names them"),
    "docker": ({"docker": {"image": "a", "container_name": "b"}}, "docker: .* run containers by your own"),
    "synced files": ({"cluster_synced_files": ["a"]}, "use file_mounts"),
    "a text as commands": ({"setup_commands": "pip install a"}, "setup_commands must be a list"),
    "numbers as commands": ({"setup_commands": [1]}, "must be a list of strings"),
    "a truth as a number": ({"max_workers": True}, "max_workers must be a int"),
    "too many workers": ({"max_workers": 3}, "between 0 and the 2 of worker_ips"),
    "more at least than at most": ({"min_workers": 2, "max_workers": 1}, "min_workers=2 and max_workers=1"),
    "a name with a slash": ({"cluster_name": "../x"}, "use letters"),
    "no key file": ({"auth": {"ssh_private_key": "/nowhere"}}, "there is no file /nowhere"),
    "a user with an option": ({"auth": {"ssh_user": "-l"}}, "not a user's name"),
    "no folder to mount": ({"file_mounts": {"/a": "/nowhere"}}, "no local file or folder /nowhere for /a"),
    "a head without a port": ({"head_start_ray_commands": ["ray start --head"]}, "listens only with --port"),
    "no head in the commands": ({"head_start_ray_commands": ["ray stop"]}, "has no `skate start --head"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_the_remedy(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        config(**given)


def test_a_file_that_is_not_yaml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    for text, message in (("a: [", "not valid YAML"), ("- a", "must be a mapping")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            read(path)
