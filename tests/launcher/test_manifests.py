"""The script for Slurm, run under a fake Slurm of one machine, and the manifests for Kubernetes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import skate
from skate.command import main
from skate.command.start import _parser as start_parser
from skate.launcher import kubernetes_manifest as kubernetes
from skate.launcher.slurm_script import Job, script

PROGRAM = """
import os, sys
import skate
skate.init()
print("on", len(skate.nodes()), "node with", skate.cluster_resources()["CPU"], "CPUs:", sys.argv[1:], flush=True)
"""
FAKES = {
    "scontrol": 'test "$*" = "show hostnames one[1-2]" && printf "127.0.0.1\\nother\\n"',
    "srun": 'echo "srun $1 $2"; shift 2; exec "$@"',
    "skate": f'exec {sys.executable} -m skate "$@"',
}


def test_the_slurm_script_runs(tmp_path: Path) -> None:
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM)
    text = script(
        Job(
            ["python3", "program.py", "a b", "$HOME"], nodes=2, cpus=2, memory="4G", time="00:10:00", partition="cpu",
            setup=[f"cd {tmp_path}", f"alias python3={sys.executable}"], directives=["--constraint=ib"],
        )
    )  # fmt: skip
    text = text.replace("-- python3", f"-- {sys.executable}")
    path = f"{tmp_path}:{os.environ['PATH']}"
    job = str(os.getpid())
    done = subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, timeout=90, check=False,
        env={"PATH": path, "HOME": str(tmp_path), "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "one[1-2]",
             "SLURM_JOB_NUM_NODES": "1", "PYTHONPATH": str(Path(skate.__file__).parents[1]),
             "SKATE_TEST_RUN": os.environ.get("SKATE_TEST_RUN", "")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "srun --ntasks-per-node=1 --kill-on-bad-exit=1" in done.stdout
    assert "on 1 node with 2.0 CPUs: ['a b', '$HOME']" in done.stdout


def test_the_directives_are_those_of_the_job() -> None:
    lines = script(
        Job(["python", "a.py"], nodes=4, cpus=8, gpus=2, account="lab", directives=["--exclusive"])
    ).splitlines()
    assert lines[0] == "#!/bin/bash"
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=skate", "#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=1", "#SBATCH --cpus-per-task=8",
        "#SBATCH --gpus-per-node=2", "#SBATCH --account=lab", "#SBATCH --exclusive",
    ]  # fmt: skip
    assert "    --num-cpus=8 --num-gpus=2 \\" in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": []}, "the command is missing"),
        ({"nodes": 0}, "nodes=0: at least 1"),
        ({"partition": "a\n#SBATCH --x"}, "cannot stand in an #SBATCH line"),
        ({"directives": ["exclusive"]}, "no option of sbatch"),
    ],
)
def test_wrong_jobs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        script(Job(**{"command": ["a"], "nodes": 1, "cpus": 1, **options}))


def of_kind(found: list[dict[str, Any]], kind: str, suffix: str) -> dict[str, Any]:
    (one,) = [each for each in found if each["kind"] == kind and each["metadata"]["name"] == f"lab-{suffix}"]
    return one


def test_the_manifests_fit_together(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--name=lab",
        "--image=registry.example/skate:1",
        "--workers=3",
        "--cpus=8",
        "--gpus=1",
        "--memory=32Gi",
    ]
    assert main(["manifest", "kubernetes", *words, "--namespace=ml", "--with-secret"]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["kind"] for each in found] == ["Secret", "Service", "StatefulSet", "Deployment"]
    assert {each["metadata"]["namespace"] for each in found} == {"ml"}
    secret, service = of_kind(found, "Secret", "token"), of_kind(found, "Service", "head")
    head, workers = of_kind(found, "StatefulSet", "head"), of_kind(found, "Deployment", "worker")
    assert re.fullmatch("[0-9a-f]{64}", secret["stringData"]["token"])
    assert (head["spec"]["replicas"], workers["spec"]["replicas"]) == (1, 3)
    for each in (head, workers):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["volumes"][0]["secret"]["secretName"] == secret["metadata"]["name"]
        folder = container["volumeMounts"][0]["mountPath"]
        assert {"name": "SKATE_AUTH_TOKEN_PATH", "value": f"{folder}/token"} in container["env"]
        # Each is a command line that `skate start` takes.
        assert container["args"][:2] == ["skate", "start"]
        given = start_parser().parse_args(container["args"][2:])
        assert given.block and given.node_ip_address == "$(POD_IP)"
        assert secret["stringData"]["token"] not in str(each)
    port = service["spec"]["ports"][0]["port"]
    pods = head["spec"]["template"]
    assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    assert (
        not service["spec"]["selector"].items() <= workers["spec"]["template"]["metadata"]["labels"].items()
    )
    assert f"--port={port}" in pods["spec"]["containers"][0]["args"]
    (worker,) = workers["spec"]["template"]["spec"]["containers"]
    assert f"--address={service['metadata']['name']}:{port}" in worker["args"]
    assert worker["resources"]["limits"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    grace = workers["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > int(worker["lifecycle"]["preStop"]["exec"]["command"][-1].partition("=")[2])


def test_a_second_head_stands_by(capsys: pytest.CaptureFixture[str]) -> None:
    store = "etcd://etcd.lab:2379/skate"
    words = ["manifest", "kubernetes", "--name=lab", "--image=image", f"--state-store={store}"]
    assert main(words) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    head, workers = (
        of_kind(found, "StatefulSet", "head")["spec"],
        of_kind(found, "Deployment", "worker")["spec"],
    )
    service, names = of_kind(found, "Service", "head")["spec"], of_kind(found, "Service", "heads")
    assert head["replicas"] == 2 and "volumeClaimTemplates" not in head
    (container,) = head["template"]["spec"]["containers"]
    given = start_parser().parse_args(container["args"][2:])
    assert given.standby and given.state_store == store and given.block and not given.state_dir
    # Each pod has a name that a standby has, too; the address for programs leads to the pod that is ready.
    assert head["serviceName"] == names["metadata"]["name"]
    assert names["spec"]["clusterIP"] == "None" and names["spec"]["publishNotReadyAddresses"]
    assert not service["publishNotReadyAddresses"]
    (container,) = workers["template"]["spec"]["containers"]
    given = start_parser().parse_args(container["args"][2:])
    port = service["ports"][0]["port"]
    assert given.address == f"lab-head-0.lab-heads:{port},lab-head-1.lab-heads:{port}"
    # The standby is never ready, and must not hold up its own replacement.
    assert head["podManagementPolicy"] == "Parallel" and head["updateStrategy"] == {"type": "OnDelete"}
    (rule,) = head["template"]["spec"]["affinity"]["podAntiAffinity"].values()
    assert rule[0]["podAffinityTerm"]["labelSelector"]["matchLabels"] == head["selector"]["matchLabels"]


def test_state_is_kept_in_one_place() -> None:
    with pytest.raises(ValueError, match="write it as etcd://HOST"):
        kubernetes.manifests(kubernetes.Cluster("lab", "image", state_store="redis://a"))
    with pytest.raises(ValueError, match="state_store keeps it in etcd"):
        kubernetes.manifests(
            kubernetes.Cluster("lab", "image", state_store="etcd://a:1/b", storage_class="ssd")
        )


def test_the_head_keeps_its_state_on_a_volume() -> None:
    cluster = kubernetes.Cluster("lab", "image", head_storage="2Gi", storage_class="fast-ssd")
    head = of_kind(kubernetes.manifests(cluster), "StatefulSet", "head")["spec"]
    assert head["replicas"] == 1
    (claim,) = head["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "fast-ssd",
    }  # fmt: skip
    (container,) = head["template"]["spec"]["containers"]
    (place,) = [
        each["mountPath"]
        for each in container["volumeMounts"]
        if each["name"] == claim["metadata"]["name"] and not each.get("readOnly")
    ]
    given = start_parser().parse_args(container["args"][2:])
    # A folder of its own: the root of a volume may have others, such as lost+found.
    assert Path(given.state_dir).parent == Path(place)
    # Workers wait for a pod that starts on another machine; they find it by the name of the service.
    assert given.state_grace > 60
    names = [each["metadata"]["name"] for each in kubernetes.manifests(cluster) if each["kind"] == "Service"]
    assert head["serviceName"] in names
    default = of_kind(kubernetes.manifests(kubernetes.Cluster("lab", "image")), "StatefulSet", "head")
    assert "storageClassName" not in default["spec"]["volumeClaimTemplates"][0]["spec"]


def test_without_a_request_no_secret_is_printed() -> None:
    kinds = [each["kind"] for each in kubernetes.manifests(kubernetes.Cluster("lab", "image"))]
    assert kinds == ["Service", "StatefulSet", "Deployment"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "Lab"}, "small letters"),
        ({"image": ""}, "not the name of an image"),
        ({"cpus": 0}, "cpus=0: at least 1"),
        ({"memory": "lots"}, "write it as 16Gi"),
        ({"head_storage": "much"}, "write it as 16Gi"),
        ({"storage_class": "Fast SSD"}, "not the name of a StorageClass"),
    ],
)
def test_wrong_clusters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kubernetes.manifests(kubernetes.Cluster(**{"name": "lab", "image": "a", **options}))


def test_the_command_prints_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["manifest", "slurm", "--nodes=2", "--cpus=4", "--sbatch=--exclusive", "--", "python", "a b.py"])
        == 0
    )
    out = capsys.readouterr().out
    assert "#SBATCH --exclusive" in out and "-- python 'a b.py'" in out
    assert main(["manifest", "kubernetes", "--image=a", "--", "python"]) == 1
    assert "kubectl exec" in capsys.readouterr().err
