"""Training with two workers on each of two machines, one of which is killed in the middle of an epoch."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import PORT, TOKEN, Cluster
from tests.cluster.namespaces import Machine, Network
from tests.conformance.waiting import wait_for

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(300)]

EPOCHS = 6
PROGRAM = """
import os, socket, sys, tempfile, time
import torch
import torch.distributed as dist
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def loop(config):
    model = train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first, found = 0, train.get_checkpoint()
    if found is not None:
        with found.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.module.load_state_dict(state["model"])
        first = state["epoch"] + 1
    hosts = [None] * train.get_context().get_world_size()
    dist.all_gather_object(hosts, socket.gethostname())
    for epoch in range(first, config["epochs"]):
        for _ in range(10):
            optimizer.zero_grad()
            ((model(torch.ones(8, 4)) - 3) ** 2).mean().backward()  # with a reduction over all workers
            optimizer.step()
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                torch.save({"model": model.module.state_dict(), "epoch": epoch}, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            train.report({"epoch": epoch, "hosts": hosts}, checkpoint=checkpoint)


ray.init("auto")
trainer = TorchTrainer(
    loop,
    train_loop_config={"epochs": int(sys.argv[2])},
    scaling_config=ScalingConfig(num_workers=4, placement_strategy="PACK"),
    run_config=RunConfig(name="run", storage_path=sys.argv[1], failure_config=FailureConfig(max_failures=1)),
)
print("last", trainer.fit().metrics["epoch"], flush=True)
"""


def start(machine: Machine, cpus: int, *flags: str) -> None:
    machine.skate("start", *flags, "--token-file", TOKEN, "--num-cpus", str(cpus), "--num-gpus", "0").ok()


def reports(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of the run's reports so far."""
    path = folder / "run" / "journal.jsonl"
    entries = map(json.loads, path.read_text().splitlines()) if path.exists() else []
    return [entry["metrics"] for entry in entries if entry["event"] == "report"]


def test_a_machine_is_killed_in_the_middle_of_an_epoch(network: Callable[..., Network], shared: Path) -> None:
    cluster = Cluster(network(4))
    start(cluster.head, 0, "--head", "--port", str(PORT))
    for machine in cluster.nodes:
        start(machine, 2, "--address", cluster.address)
    path = shared / "program.py"
    path.write_text(PROGRAM)
    job = cluster.head.skate("run", str(path), str(shared), str(EPOCHS))
    wait_for(lambda: len(reports(shared)) >= 2 or job.process.poll() is not None, 120, "two epochs")
    assert job.process.poll() is None, job.story()
    before = reports(shared)
    hosts = sorted(before[-1]["hosts"])
    killed = next(machine for machine in cluster.nodes if machine.name == hosts[-1])
    assert hosts.count(killed.name) == 2 and len(set(hosts)) == 2, hosts
    cluster.send(killed, signal.SIGKILL)
    assert f"last {EPOCHS - 1}" in job.ok(200), job.story()
    after = reports(shared)
    assert [each["epoch"] for each in after] == list(range(EPOCHS))  # it continued at its last checkpoint
    assert killed.name not in after[-1]["hosts"] and len(after[-1]["hosts"]) == 4
    cluster.gone(killed)
    cluster.down()
