"""Mistakes in reports and in paths: the errors that report them."""

from __future__ import annotations

import os
import pathlib
import tempfile

import pytest
from ray import train
from ray.train import Checkpoint, Result, RunConfig, ScalingConfig
from trainers import DataParallelTrainer


def test_a_folder_of_a_checkpoint_may_be_filled_later(tmp_path):
    checkpoint = Checkpoint.from_directory(tmp_path / "later")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "file").write_text("here")
    with checkpoint.as_directory() as folder:
        assert pathlib.Path(folder, "file").read_text() == "here"


def test_a_folder_that_does_not_exist_has_no_result(tmp_path):
    with pytest.raises(RuntimeError, match="Experiment folder .*/none doesn't exist"):
        Result.from_path(str(tmp_path / "none"))


def test_a_training_function_of_two_arguments():
    with pytest.raises(ValueError, match="train_loop_per_worker should take in 0 or 1 required arguments"):
        DataParallelTrainer(lambda one, other: None).fit()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("mistake", "phrase"),
    [
        ("no checkpoint", "checkpoint_upload_fn must return a `ray.train.Checkpoint`"),
        ("the run itself", "is contained within the checkpoint path"),
    ],
)
def test_reports_that_fail_the_run(tmp_path, mistake, phrase):
    def loop():
        if mistake == "no checkpoint":
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = Checkpoint.from_directory(folder)
                train.report({"a": 1}, checkpoint=checkpoint, checkpoint_upload_fn=lambda given, name: None)
        else:
            run = train.get_context().get_storage().experiment_fs_path
            checkpoint = Checkpoint.from_directory(os.path.dirname(run))
            train.report({"a": 1}, checkpoint=checkpoint, delete_local_checkpoint_after_upload=True)

    storage = tmp_path / "storage"
    trainer = DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=str(storage)),
    )
    with pytest.raises(train.WorkerGroupError) as caught:
        trainer.fit()
    assert "ValueError" in repr(caught.value.worker_failures[0])
    assert phrase in str(caught.value.worker_failures[0])
    assert (storage / "run").is_dir()
