"""Runs on clusters whose nodes come and go: they shrink, grow, wait, or fail with the nodes named."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

import skate
from skate import train
from skate.client.session import session
from skate.client.session.detached_node import GROWS_LABEL
from skate.cluster_utils import Cluster
from skate.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from skate.train.collective import broadcast_from_rank_zero
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.util import placement_group_table

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head with one CPU, and this process as its driver; tests add nodes."""
    skate.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield made
    skate.shutdown()
    made.shutdown()


def steps(config: dict[str, Any]) -> int:
    """Report with a checkpoint until a file says that it is enough; continue where the last attempt was."""
    found = train.get_checkpoint()
    step = 0
    if found is not None:
        with found.as_directory() as folder:
            step = int(Path(folder, "step").read_text()) + 1
    world = train.get_context().get_world_size()
    while not broadcast_from_rank_zero(os.path.exists(config["enough"])):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            train.report({"step": step, "world": world}, checkpoint=Checkpoint.from_directory(folder))
        step += 1
    return world


class Watched:
    """A run in this thread, with another that sees its journal and changes the cluster meanwhile."""

    def __init__(self, tmp_path: Path) -> None:
        self.storage = tmp_path
        self.enough = tmp_path / "enough"
        self.problems: list[BaseException] = []

    def entries(self, event: str) -> list[dict[str, Any]]:
        """The journal's entries of a kind."""
        try:
            lines = (self.storage / "run" / "journal.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def await_world(self, size: int) -> None:
        """Wait until the last report came from so many workers."""
        wait_for(
            lambda: [each["metrics"]["world"] for each in self.entries("report")[-1:]] == [size],
            30,
            f"a report of {size} workers",
        )

    def fit(self, change: Callable[[], None], workers: Any, **failure: Any) -> train.Result:
        def watch() -> None:
            try:
                change()
            except BaseException as problem:  # told by the test, in its own thread
                self.problems.append(problem)
            finally:
                self.enough.touch()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            return DataParallelTrainer(
                steps,
                train_loop_config={"enough": str(self.enough)},
                scaling_config=ScalingConfig(num_workers=workers, elastic_resize_monitor_interval_s=0.2),
                run_config=RunConfig(
                    name="run", storage_path=str(self.storage), failure_config=FailureConfig(**failure)
                ),
            ).fit()
        finally:
            self.enough.touch()
            watcher.join()
            assert not self.problems, self.problems


def test_a_run_shrinks_with_a_lost_node_and_grows_with_a_new_one(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.connect()
    run = Watched(tmp_path)

    def change() -> None:
        run.await_world(2)
        cluster.remove_node(node, allow_graceful=False)
        run.await_world(1)
        cluster.add_node(num_cpus=1)
        run.await_world(2)

    result = run.fit(change, (1, 2))
    assert result.return_value == 2
    assert [entry["workers"] for entry in run.entries("start")] == [2, 1, 2]
    seen = [entry["metrics"]["step"] for entry in run.entries("report")]
    assert seen == sorted(seen), "each attempt continues from the last checkpoint"
    assert seen[-1] == len(set(seen)) - 1, "no step is left out"


def test_room_that_others_take_is_not_counted(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    cluster.connect()
    run = Watched(tmp_path)

    @skate.remote(num_cpus=1)
    class Other:
        def ready(self) -> bool:
            return True

    other = Other.remote()
    skate.get(other.ready.remote())

    def change() -> None:
        run.await_world(1)
        skate.kill(other)
        run.await_world(2)

    run.fit(change, (1, 4))
    assert [entry["workers"] for entry in run.entries("start")] == [1, 2]


def test_a_run_of_a_fixed_size_waits_for_a_node_in_the_place_of_a_lost_one(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.connect()
    run = Watched(tmp_path)
    printed: list[str] = []

    def waits() -> bool:
        printed.append(capfd.readouterr().err)
        return "waiting for nodes" in "".join(printed)

    def change() -> None:
        run.await_world(2)
        cluster.remove_node(node, allow_graceful=False)
        wait_for(waits, 30, "the run to say that it waits")
        cluster.add_node(num_cpus=1)
        wait_for(lambda: len(run.entries("start")) == 2, 30, "the second attempt")
        before = len(run.entries("report"))
        wait_for(lambda: len(run.entries("report")) > before, 30, "a report of the second attempt")

    run.fit(change, 2)
    assert [entry["workers"] for entry in run.entries("start")] == [2, 2]
    assert "2 workers with 1 CPU each were requested" in "".join(printed)
    assert "room for 1 worker" in "".join(printed)


def test_a_lost_node_that_is_one_too_many_is_named_with_its_ranks(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.connect()
    run = Watched(tmp_path)

    def change() -> None:
        run.await_world(2)
        cluster.remove_node(node, allow_graceful=False)

    with pytest.raises(train.PreemptionError, match=f"node {node.node_id} with rank 1") as caught:
        run.fit(change, (1, 2), max_preemption_failures=0)
    assert caught.value.preemption_info.preempted_node_to_ranks == {node.node_id: [1]}
    assert caught.value.preemption_info.preempted_ranks == [1]
    assert caught.value.preemption_info.preempted_node_ids == [node.node_id]


def until_announced(config: dict[str, Any]) -> None:
    """Ask for announced preemptions until there is one, and report it."""
    assert train.get_preemption_info() is None
    Path(config["begun"]).touch()
    while (found := train.get_preemption_info()) is None:
        threading.Event().wait(0.05)  # a step
    left = found.deadline_ms / 1000 - time.time()
    train.report({"nodes": found.preempted_node_ids, "ranks": found.preempted_ranks, "left": left})


def save_once_alone(config: dict[str, Any]) -> None:
    """Save a checkpoint with rank 0 some time after the node of rank 1 has left, and continue from it."""
    if (saved := train.get_checkpoint()) is not None:
        with saved.as_directory() as folder:
            train.report({"restored": Path(folder, "text").read_text()})
        return
    Path(config["begun"] + str(train.get_context().get_world_rank())).touch()
    if train.get_context().get_world_rank() == 1:
        threading.Event().wait()
    gone = "the node of rank 1 has left"
    wait_for(lambda: sum(node["Alive"] for node in skate.nodes()) == 1, 60, gone)
    threading.Event().wait(1.0)  # a step that takes longer than failures are collected
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text").write_text("saved after the loss")
        train.report({"saved": True}, checkpoint=Checkpoint.from_directory(folder))


def test_the_others_may_save_their_work_when_a_drained_node_has_left(
    cluster: Cluster, tmp_path: Path
) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.connect()
    answers: list[Any] = []

    def drain() -> None:
        for rank in (0, 1):
            wait_for((tmp_path / f"begun{rank}").exists, 60, f"rank {rank} to begin")
        wanted = bytes.fromhex(node.node_id), "DRAIN_NODE_REASON_PREEMPTION", "", 2
        answers.append(session.current().request("drain_node", *wanted))

    watcher = threading.Thread(target=drain)
    watcher.start()
    failures = FailureConfig(preemption_grace_s=60, relax_collectives_on_preemption=True)
    result = DataParallelTrainer(
        save_once_alone,
        train_loop_config={"begun": str(tmp_path / "begun")},
        scaling_config=ScalingConfig(num_workers=(1, 2)),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), failure_config=failures),
    ).fit()
    watcher.join()
    assert answers == [(True, "")]
    assert result.metrics == {"restored": "saved after the loss"}


def test_workers_learn_that_a_node_is_drained(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.connect()
    begun = tmp_path / "begun"
    answers: list[Any] = []

    def drain() -> None:
        wait_for(begun.exists, 30, "the workers to begin")
        reason = "DRAIN_NODE_REASON_PREEMPTION"
        wanted = bytes.fromhex(node.node_id), reason, "a spot instance", 60
        answers.append(session.current().request("drain_node", *wanted))

    watcher = threading.Thread(target=drain)
    watcher.start()
    result = DataParallelTrainer(
        until_announced,
        train_loop_config={"begun": str(begun)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    ).fit()
    watcher.join()
    assert answers == [(True, "")]
    assert result.metrics["nodes"] == [node.node_id] and result.metrics["ranks"] == [1]
    assert 0 < result.metrics["left"] <= 61
    gone = f"{node.node_id} has left, now that its worker has ended"
    wait_for(lambda: [n["Alive"] for n in skate.nodes() if n["NodeID"] == node.node_id] == [False], 20, gone)


def test_a_cluster_grows_for_the_workers_of_a_run(tmp_path: Path) -> None:
    skate.shutdown()
    head = {"num_cpus": 1, "labels": {GROWS_LABEL: "on"}}
    cluster = Cluster(initialize_head=True, head_node_args=head, connect=True)
    results: list[train.Result] = []

    def fit() -> None:
        trainer = DataParallelTrainer(
            lambda: train.get_context().get_world_size(),
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2}),
            run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        )
        results.append(trainer.fit())

    thread = threading.Thread(target=fit)
    thread.start()
    try:
        wait_for(lambda: [each["state"] for each in placement_group_table().values()] == ["PENDING"], 60)
        cluster.add_node(num_cpus=4)
        thread.join(60)
        assert [result.return_value for result in results] == [2]
    finally:
        skate.shutdown()
        thread.join()
        cluster.shutdown()
