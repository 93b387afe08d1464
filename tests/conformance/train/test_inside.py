"""Observations inside a training function, all in one run, because a run costs Ray ten seconds and more; one test
each.
"""

from __future__ import annotations

import os
import tempfile

import pytest
from ray import train
from ray.train import Checkpoint, CheckpointConfig, CheckpointUploadMode, RunConfig, ScalingConfig, collective
from trainers import DataParallelTrainer

pytestmark = pytest.mark.usefixtures("cluster")


class Recorder(train.UserCallback):
    """The arguments of callbacks."""

    def __init__(self, path):
        self.path = path

    def after_report(self, run_context, metrics, checkpoint):
        with open(self.path, "a") as file:
            file.write(f"{[each['step'] for each in metrics]} {checkpoint is not None}\n")


def refused(call):
    try:
        call()
    except Exception as error:  # its type is what is asked for
        return type(error).__name__
    return "nothing"


def report_steps(rank, seen):
    """Four reports, three of them with a checkpoint."""
    names, latest, reported = [], [], []
    modes = (None, CheckpointUploadMode.SYNC, CheckpointUploadMode.SYNC, CheckpointUploadMode.SYNC)
    for step, mode in enumerate(modes):
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if mode is not None:
                with open(f"{folder}/rank-{rank}", "w") as file:
                    file.write(str(step))
                made = Checkpoint.from_directory(folder)
                made.set_metadata({"step": step})
            found = train.report({"step": step + 10 * rank, "score": (step * 7) % 5}, checkpoint=made)
            names.append(found)
            latest.append(train.get_checkpoint())
            reported.append(len(train.get_all_reported_checkpoints()))
    seen["report returns"] = names
    seen["checkpoints known"] = reported
    seen["latest is the last"] = [each is None for each in latest]


def report_in_other_ways(rank, seen):
    """A checkpoint with a name of its own, and one in the background."""
    folder = tempfile.mkdtemp()
    with open(f"{folder}/rank-{rank}", "w") as file:
        file.write("named")
    train.report(
        {"step": 4 + 10 * rank, "score": 9},
        checkpoint=Checkpoint.from_directory(folder),
        checkpoint_dir_name="mine",
        delete_local_checkpoint_after_upload=True,
    )
    seen["local files go"] = os.path.exists(folder)
    seen["named"] = os.path.basename(train.get_checkpoint().path)
    folder = tempfile.mkdtemp()
    with open(f"{folder}/rank-{rank}", "w") as file:
        file.write("later")
    train.report(
        {"step": 5 + 10 * rank, "score": 0},
        checkpoint=Checkpoint.from_directory(folder),
        checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
    )
    seen["known after all are written"] = [
        each.metrics["step"] for each in train.get_all_reported_checkpoints()
    ]


def loop(config):
    """Look at everything, and give it back."""
    context = train.get_context()
    rank = context.get_world_rank()
    seen = {
        "world size": context.get_world_size(),
        "local rank": context.get_local_rank(),
        "local world size": context.get_local_world_size(),
        "node rank": context.get_node_rank(),
        "name": context.get_experiment_name(),
        "config": config["x"],
        "preemption": train.get_preemption_info(),
        "checkpoint at first": train.get_checkpoint(),
        "trials": [
            refused(context.get_trial_name),
            refused(context.get_trial_id),
            refused(context.get_trial_resources),
            refused(context.get_trial_dir),
            refused(context.get_metadata),
        ],
        "no such dataset": refused(lambda: train.get_dataset_shard("none")),
    }
    seen["broadcast"] = collective.broadcast_from_rank_zero([rank, "value"])
    seen["barrier"] = collective.barrier()
    report_steps(rank, seen)
    with train.get_checkpoint().as_directory() as folder:
        seen["files of all ranks"] = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    seen["metadata"] = train.get_checkpoint().get_metadata()
    every = train.get_all_reported_checkpoints()
    seen["metrics known"] = [each.metrics["step"] for each in every]
    seen["status known"] = [each.status.name for each in every]
    report_in_other_ways(rank, seen)
    return seen


_found = []


@pytest.fixture
def run(cluster, tmp_path_factory):
    """(what rank 0 saw, the result, what callbacks were told, the folder)"""
    if not _found:
        _found.append(None)  # what fails once would fail again
        _found[0] = once(tmp_path_factory)
    assert _found[0] is not None, "the run has failed, as the first test tells"
    return _found[0]


def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    result = DataParallelTrainer(
        loop,
        train_loop_config={"x": {"deep": [1, 2]}},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="inside",
            storage_path=str(folder),
            checkpoint_config=CheckpointConfig(num_to_keep=3, checkpoint_score_attribute="score"),
            callbacks=[Recorder(str(folder / "told"))],
        ),
    ).fit()
    return result.return_value, result, (folder / "told").read_text().splitlines(), folder


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("world size", 2),
        ("local rank", 0),
        ("local world size", 2),
        ("node rank", 0),
        ("name", "inside"),
        ("config", {"deep": [1, 2]}),
        ("preemption", None),
        ("checkpoint at first", None),
        ("trials", ["DeprecationWarning"] * 5),
        ("no such dataset", "KeyError"),
        ("broadcast", [0, "value"]),
        ("barrier", None),
        ("report returns", [None] * 4),
        ("checkpoints known", [0, 1, 2, 3]),
        ("latest is the last", [True, False, False, False]),
        ("files of all ranks", ["rank-0", "rank-1"]),
        ("metadata", {"step": 3}),
        ("metrics known", [3, 1, 2]),  # worst first
        ("status known", ["COMMITTED"] * 3),
        ("local files go", False),
        ("named", "mine"),
    ],
)
def test_what_rank_zero_saw(run, what, expected):
    assert run[0][what] == expected


def test_reports_in_the_background_are_known_once_they_are_written(run):
    assert {2, 4} <= set(run[0]["known after all are written"])


@pytest.mark.chosen_difference("the last one is among those that are kept", id="D-train-kept")
def test_the_last_one_is_among_those_that_are_kept(run):
    assert run[0]["known after all are written"] == [5, 1, 2, 4]
    assert [metrics["step"] for _, metrics in run[1].best_checkpoints] == [5, 1, 2, 4]
    assert run[1].get_best_checkpoint("score", "min").path == run[1].checkpoint.path


def test_last_metrics_are_those_of_the_last_checkpoint(run):
    assert run[1].metrics == {"step": 5, "score": 0}


def test_best_ones_and_the_last_are_kept(run):
    # Scores by step: 1: 2, 2: 4, 3: 1, 4: 9, 5: 0; the last stays, to continue from.
    kept = {metrics["step"]: metrics["score"] for _, metrics in run[1].best_checkpoints}
    assert {4: 9, 2: 4, 1: 2}.items() <= kept.items()
    assert 3 not in kept
    assert os.path.isdir(run[1].checkpoint.path)


def test_best_checkpoint_by_a_metric(run):
    assert os.path.basename(run[1].get_best_checkpoint("score", "max").path) == "mine"


def test_best_checkpoint_by_what_was_not_reported(run):
    with pytest.raises(
        RuntimeError, match="Invalid metric name loss! You may choose from the following metrics"
    ):
        run[1].get_best_checkpoint("loss", "max")


def test_files_of_what_is_kept(run):
    for checkpoint, _ in run[1].best_checkpoints:
        with checkpoint.as_directory() as folder:
            assert {"rank-0", "rank-1"} <= set(os.listdir(folder))


def test_what_is_deleted_is_gone(run):
    kept = {os.path.basename(checkpoint.path) for checkpoint, _ in run[1].best_checkpoints}
    kept_here = {
        name for name in os.listdir(run[1].path) if name == "mine" or name.startswith("checkpoint_2")
    }
    assert kept_here == kept | {os.path.basename(run[1].checkpoint.path)}


def test_result_is_in_the_run_s_folder(run):
    assert run[1].path == str(run[3] / "inside")
    assert all(os.path.dirname(each.path) == run[1].path for each, _ in run[1].best_checkpoints)


def test_result_is_read_from_its_folder(run):
    again = train.Result.from_path(run[1].path)
    assert again.metrics == run[1].metrics
    assert again.checkpoint.path == run[1].checkpoint.path
    found = {checkpoint.path for checkpoint, _ in again.best_checkpoints}
    assert found >= {checkpoint.path for checkpoint, _ in run[1].best_checkpoints}


def test_result_of_what_is_no_run(tmp_path):
    with pytest.raises(RuntimeError):
        train.Result.from_path(str(tmp_path))


def test_result_has_a_filesystem(run):
    assert run[1].filesystem.type_name == "local"


def test_result_has_no_error(run):
    assert run[1].error is None


def test_rows_of_metrics_have_the_kept_ones(run):
    steps = list(run[1].metrics_dataframe["step"])
    assert steps == sorted(steps) and {2, 4} <= set(steps)


@pytest.mark.parametrize("step", range(6))
def test_callbacks_are_told_of_each_report(run, step):
    assert run[2][step] == f"[{step}, {10 + step}] {step > 0}"
