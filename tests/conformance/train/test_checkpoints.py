"""Checkpoints: written, merged, kept, read; with every way to write them."""

from __future__ import annotations

import os
import tempfile

import pytest
from ray import train
from ray.train import Checkpoint, CheckpointConfig, CheckpointUploadMode, RunConfig, ScalingConfig
from trainers import DataParallelTrainer
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def fit(function, tmp_path, workers=1, config=None, **checkpoint_config):
    return DataParallelTrainer(
        function,
        train_loop_config=config or {},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path / "storage"),
            checkpoint_config=CheckpointConfig(**checkpoint_config),
        ),
    ).fit()


def reporting(metrics, name=None):
    """Report with a checkpoint that holds this rank's file and a shared one."""
    rank = train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/deep")
        with open(f"{folder}/rank-{rank}", "w") as file:
            file.write(str(rank))
        with open(f"{folder}/deep/metrics", "w") as file:
            file.write(repr(metrics))
        train.report(metrics, checkpoint=Checkpoint.from_directory(folder), checkpoint_dir_name=name)


def test_files_of_all_ranks_make_one_checkpoint(tmp_path):
    def loop():
        reporting({"a": 1})

    found = fit(loop, tmp_path, workers=2).checkpoint
    with found.as_directory() as folder:
        assert {"rank-0", "rank-1", "deep"} <= set(os.listdir(folder))
        with open(f"{folder}/rank-1") as file:
            assert file.read() == "1"
        assert os.listdir(f"{folder}/deep") == ["metrics"]


def test_checkpoint_is_in_the_run_s_folder(tmp_path):
    result = fit(lambda: reporting({"a": 1}), tmp_path)
    assert os.path.dirname(result.checkpoint.path) == result.path
    assert os.path.basename(result.checkpoint.path).startswith("checkpoint_")


def test_name_of_a_checkpoint_may_be_given(tmp_path):
    result = fit(lambda: reporting({"a": 1}, name="mine"), tmp_path)
    assert os.path.basename(result.checkpoint.path) == "mine"


def test_all_are_kept_unless_said_otherwise(tmp_path):
    def loop():
        for i in range(4):
            reporting({"i": i})

    result = fit(loop, tmp_path)
    assert [metrics["i"] for _, metrics in result.best_checkpoints] == [0, 1, 2, 3]
    assert all(os.path.isdir(checkpoint.path) for checkpoint, _ in result.best_checkpoints)


def test_last_ones_are_kept(tmp_path):
    def loop():
        for i in range(5):
            reporting({"i": i})

    result = fit(loop, tmp_path, num_to_keep=2)
    assert [metrics["i"] for _, metrics in result.best_checkpoints] == [3, 4]
    kept = {os.path.basename(checkpoint.path) for checkpoint, _ in result.best_checkpoints}
    names = {
        name for name in os.listdir(result.path) if name.startswith("checkpoint_") and "." not in name[-5:]
    }
    assert {name for name in names if os.path.isdir(f"{result.path}/{name}")} == kept


BEST = [
    ("max", [6, 9]),
    pytest.param(
        *("min", [6, 4, 1]),
        marks=pytest.mark.chosen_difference("the last one is among those that are kept", id="D-train-kept"),
    ),
]


@pytest.mark.parametrize(("order", "best"), BEST)
def test_best_ones_and_the_last_are_kept(tmp_path, order, best):
    def loop():
        for score in (5, 9, 1, 4, 6):
            reporting({"score": score})

    result = fit(
        loop, tmp_path, num_to_keep=2, checkpoint_score_attribute="score", checkpoint_score_order=order
    )
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == best
    assert result.metrics["score"] == 6 and os.path.isdir(result.checkpoint.path)
    found = result.get_best_checkpoint("score", order)
    assert found.path == result.best_checkpoints[-1][0].path


def test_get_checkpoint_is_none_at_first(tmp_path):
    def loop():
        return train.get_checkpoint() is None

    assert fit(loop, tmp_path).return_value is True


def test_checkpoint_without_files_of_some_ranks(tmp_path):
    def loop():
        if train.get_context().get_world_rank() == 1:
            reporting({"a": 1})
        else:
            train.report({"a": 0})

    with fit(loop, tmp_path, workers=2).checkpoint.as_directory() as folder:
        assert "rank-1" in os.listdir(folder)


def test_background_upload(tmp_path):
    def loop(config):
        for i in range(3):
            folder = f"{config['at']}/{i}"
            os.makedirs(folder)
            with open(f"{folder}/x", "w") as file:
                file.write(str(i))
            train.report(
                {"i": i},
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            )

    result = fit(loop, tmp_path, config={"at": str(tmp_path / "made")})
    assert [metrics["i"] for _, metrics in result.best_checkpoints] == [0, 1, 2]
    for i, (checkpoint, _) in enumerate(result.best_checkpoints):
        with open(f"{checkpoint.path}/x") as file:
            assert file.read() == str(i)


@pytest.mark.parametrize("delete", [True, False])
def test_local_files_go_if_asked(tmp_path, delete):
    def loop(config):
        os.makedirs(config["at"])
        train.report(
            {"a": 1},
            checkpoint=Checkpoint.from_directory(config["at"]),
            delete_local_checkpoint_after_upload=delete,
        )
        return os.path.exists(config["at"])

    assert fit(loop, tmp_path, config={"at": str(tmp_path / "made")}).return_value is not delete


def test_checkpoint_that_is_in_the_storage_already(tmp_path):
    def loop(config):
        folder = f"{config['storage']}/run/placed"
        os.makedirs(folder)
        open(f"{folder}/x", "w").close()
        train.report(
            {"a": 1},
            checkpoint=Checkpoint(folder),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    result = fit(loop, tmp_path, config={"storage": str(tmp_path / "storage")})
    assert result.checkpoint.path == str(tmp_path / "storage" / "run" / "placed")
    assert os.listdir(result.checkpoint.path) == ["x"]


def test_upload_by_a_function_of_the_user_s(tmp_path):
    def upload(checkpoint, name):
        target = f"{tmp_path}/storage/run/{name}"
        checkpoint.to_directory(target)
        open(f"{target}/by-hand", "w").close()
        return Checkpoint(target)

    def loop():
        with tempfile.TemporaryDirectory() as folder:
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder), checkpoint_upload_fn=upload)

    assert "by-hand" in os.listdir(fit(loop, tmp_path).checkpoint.path)


def test_resume_from_a_checkpoint_of_elsewhere(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "x").write_text("old")

    def loop():
        with train.get_checkpoint().as_directory() as at, open(f"{at}/x") as file:
            return file.read()

    def with_config(config):
        with config["checkpoint"].as_directory() as at, open(f"{at}/x") as file:
            return file.read()

    given = {"checkpoint": Checkpoint.from_directory(str(folder))}
    assert fit(with_config, tmp_path, config=given).return_value == "old"


def test_to_directory_and_metadata(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "x").write_text("1")
    checkpoint = Checkpoint.from_directory(str(folder))
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": 2})
    assert checkpoint.get_metadata() == {"a": 1, "b": 2}
    copied = checkpoint.to_directory(str(tmp_path / "copy"))
    assert copied == str(tmp_path / "copy")
    assert (tmp_path / "copy" / "x").read_text() == "1"
    with checkpoint.as_directory() as same:
        assert same == str(folder)
    assert os.path.isdir(checkpoint.to_directory())


def test_checkpoints_reported_so_far(tmp_path):
    def loop():
        counts = []
        for i in range(3):
            reporting({"i": i})
            counts.append(len(train.get_all_reported_checkpoints()))
        return counts

    assert fit(loop, tmp_path).return_value == [1, 2, 3]


def test_validation_adds_to_the_metrics(tmp_path):
    def validate(checkpoint, offset=0):
        with checkpoint.as_directory() as folder:
            return {"checked": os.path.exists(f"{folder}/rank-0"), "offset": offset}

    def loop():
        rank = train.get_context().get_world_rank()
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/rank-{rank}", "w").close()
            train.report({"i": 1}, checkpoint=Checkpoint.from_directory(folder), validation=True)

    result = DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        validation_config=train.ValidationConfig(
            fn=validate, task_config=train.ValidationTaskConfig(fn_kwargs={"offset": 3})
        ),
    ).fit()
    ((_, metrics),) = result.best_checkpoints
    assert metrics == {"i": 1, "checked": True, "offset": 3}


def test_checkpoints_are_given_before_their_validation_ends_if_asked(tmp_path):
    def validate(checkpoint, path):
        wait_for(lambda: os.path.exists(path), 60, "the training function")
        return {"checked": True}

    def loop(config):
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/x", "w").close()
            train.report({"i": 1}, checkpoint=Checkpoint.from_directory(folder), validation=True)
        mode = train.CheckpointConsistencyMode
        (written,) = train.get_all_reported_checkpoints(mode.COMMITTED)
        (late,) = train.get_all_reported_checkpoints(mode.VALIDATED, timeout_s=0.5)
        open(config["path"], "w").close()
        (whole,) = train.get_all_reported_checkpoints(mode.VALIDATED)
        return [(each.metrics, each.status.name) for each in (written, late, whole)]

    path = str(tmp_path / "continue")
    result = DataParallelTrainer(
        loop,
        train_loop_config={"path": path},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        validation_config=train.ValidationConfig(
            fn=validate, task_config=train.ValidationTaskConfig(fn_kwargs={"path": path})
        ),
    ).fit()
    before = ({"i": 1}, "PENDING_VALIDATION")
    assert result.return_value == [before, before, ({"i": 1, "checked": True}, "VALIDATED")]


@pytest.mark.parametrize(
    "validation", [True, train.ValidationTaskConfig(fn_kwargs={"a": 1})], ids=["yes", "config"]
)
def test_a_validation_without_a_checkpoint_fails_the_run(tmp_path, validation):
    def loop():
        with pytest.raises(ValueError, match="Validation requires a checkpoint to be provided"):
            train.report({"i": 1}, validation=validation)
        train.report({"i": 2}, validation=False)
        train.report({"i": 1}, validation=validation)

    with pytest.raises(train.WorkerGroupError, match="Validation requires a checkpoint to be provided"):
        fit(loop, tmp_path)


def test_checkpoints_of_either_mode_without_any_validation(tmp_path):
    def loop():
        mode, counts = train.CheckpointConsistencyMode, []
        counts.append(len(train.get_all_reported_checkpoints(mode.COMMITTED)))
        reporting({"i": 1})
        counts += [len(train.get_all_reported_checkpoints(each)) for each in (mode.COMMITTED, mode.VALIDATED)]
        counts.append(len(train.get_all_reported_checkpoints(consistency_mode=mode.VALIDATED, timeout_s=0)))
        return counts, train.get_all_reported_checkpoints()[0].status.name

    assert fit(loop, tmp_path).return_value == ([0, 1, 1, 1], "COMMITTED")


def test_ranks_that_return_early_keep_nobody_from_asking_what_is_written(tmp_path):
    def loop():
        reporting({"i": 1})
        if train.get_context().get_world_rank() == 0:
            return [len(train.get_all_reported_checkpoints(each)) for each in train.CheckpointConsistencyMode]
        return None

    assert fit(loop, tmp_path, workers=2).return_value == [1, 1]


def test_ranks_ask_for_checkpoints_each_on_its_own(tmp_path):
    def loop():
        counts = []
        for i in range(2):
            reporting({"i": i})
            if train.get_context().get_world_rank() == i:
                counts.append(len(train.get_all_reported_checkpoints()))
        train.report({"i": 2})
        return counts

    assert fit(loop, tmp_path, workers=2).return_value == [1]
