"""The names of ray.train, with their arguments and defaults."""

from __future__ import annotations

import importlib
import inspect

import pytest
from ray import train
from ray.train import CheckpointUploadMode
from trainers import DataParallelTrainer

#: A default that is not compared, and one that there is not.
ANY, NEEDED = object(), inspect.Parameter.empty

TRAINER = {
    "train_loop_per_worker": NEEDED,
    "train_loop_config": None,
    "scaling_config": None,
    "run_config": None,
    "datasets": None,
    "dataset_config": None,
    "validation_config": None,
    "metadata": None,
    "resume_from_checkpoint": None,
}
SIGNATURES = {
    "ray.train.Checkpoint": {"path": NEEDED, "filesystem": None},
    "ray.train.Checkpoint.from_directory": {"path": NEEDED},
    "ray.train.CheckpointConfig": {
        "num_to_keep": None,
        "checkpoint_score_attribute": None,
        "checkpoint_score_order": "max",
        "checkpoint_frequency": "DEPRECATED",
        "checkpoint_at_end": "DEPRECATED",
    },
    "ray.train.DataConfig": {
        "datasets_to_split": "all",
        "execution_options": None,
        "enable_shard_locality": True,
    },
    "ray.train.FailureConfig": {
        "max_failures": 0,
        "fail_fast": "DEPRECATED",
        "controller_failure_limit": -1,
        "max_preemption_failures": -1,
        "relax_collectives_on_preemption": False,
        "preemption_grace_s": 0.0,
    },
    "ray.train.LoggingConfig": {"log_level": "INFO"},
    "ray.train.NCCLHangError": {"error_message": NEEDED, "worker_failures": NEEDED},
    "ray.train.PreemptionError": {"preemption_info": NEEDED, "drain_timed_out": False},
    "ray.train.PreemptionInfo": {"deadline_ms": NEEDED, "preempted_node_to_ranks": NEEDED},
    "ray.train.ReportedCheckpoint": {"checkpoint": NEEDED, "metrics": NEEDED, "status": NEEDED},
    "ray.train.Result": {
        "metrics": NEEDED,
        "checkpoint": NEEDED,
        "error": NEEDED,
        "path": NEEDED,
        "metrics_dataframe": None,
        "best_checkpoints": None,
        "_storage_filesystem": None,
        "return_value": None,
    },
    "ray.train.Result.from_path": {"path": NEEDED, "storage_filesystem": None},
    "ray.train.RunConfig": {
        "name": None,
        "storage_path": None,
        "storage_filesystem": None,
        "failure_config": None,
        "checkpoint_config": None,
        "callbacks": None,
        "worker_runtime_env": None,
        "logging_config": None,
        "sync_config": "DEPRECATED",
        "verbose": "DEPRECATED",
        "stop": "DEPRECATED",
        "progress_reporter": "DEPRECATED",
        "log_to_file": "DEPRECATED",
    },
    "ray.train.ScalingConfig": {
        "trainer_resources": None,
        "num_workers": 1,
        "use_gpu": False,
        "resources_per_worker": None,
        "placement_strategy": "PACK",
        "accelerator_type": None,
        "label_selector": None,
        "use_tpu": False,
        "topology": None,
        "elastic_resize_monitor_interval_s": 60.0,
    },
    "ray.train.SyncConfig": {
        "sync_period": 300,
        "sync_timeout": 1800,
        "sync_artifacts": False,
        "sync_artifacts_on_checkpoint": True,
    },
    "ray.train.ValidationConfig": {"fn": NEEDED, "task_config": None, "ray_remote_kwargs": None},
    "ray.train.ValidationTaskConfig": {"fn_kwargs": None, "timeout_s": None},
    "ray.train.WorkerGroupError": {"error_message": NEEDED, "worker_failures": NEEDED},
    "ray.train.ControllerError": {"controller_failure": NEEDED},
    "ray.train.get_all_reported_checkpoints": {"consistency_mode": ANY, "timeout_s": None},
    "ray.train.get_checkpoint": {},
    "ray.train.get_context": {},
    "ray.train.get_dataset_shard": {"dataset_name": None},
    "ray.train.get_preemption_info": {},
    "ray.train.report": {
        "metrics": NEEDED,
        "checkpoint": None,
        "checkpoint_dir_name": None,
        "checkpoint_upload_mode": CheckpointUploadMode.SYNC,
        "delete_local_checkpoint_after_upload": None,
        "checkpoint_upload_fn": None,
        "validation": False,
    },
    "ray.train.collective.barrier": {},
    "ray.train.collective.broadcast_from_rank_zero": {"data": NEEDED},
}
OF_TORCH = {
    "ray.train.torch.TorchConfig": {"backend": None, "init_method": "env", "timeout_s": 1800},
    "ray.train.torch.TorchTrainer": TRAINER | {"torch_config": None},
    "ray.train.torch.TorchCheckpoint.from_model": {"model": NEEDED, "preprocessor": None},
    "ray.train.torch.TorchCheckpoint.from_state_dict": {"state_dict": NEEDED, "preprocessor": None},
    "ray.train.torch.accelerate": {"amp": False},
    "ray.train.torch.backward": {"tensor": NEEDED},
    "ray.train.torch.enable_reproducibility": {"seed": 0},
    "ray.train.torch.get_device": {},
    "ray.train.torch.get_devices": {},
    "ray.train.torch.prepare_data_loader": {
        "data_loader": NEEDED,
        "add_dist_sampler": True,
        "move_to_device": True,
        "auto_transfer": True,
    },
    "ray.train.torch.prepare_model": {
        "model": NEEDED,
        "move_to_device": True,
        "parallel_strategy": "ddp",
        "parallel_strategy_kwargs": None,
    },
    "ray.train.torch.prepare_optimizer": {"optimizer": NEEDED},
}


def find(path):
    module, rest = path, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            rest.insert(0, name)
    for name in rest:
        found = getattr(found, name)
    return found


def check(path, expected):
    # The real ones of trainers may stand behind *args: what is asked is that each can be said, and what is so if it is not.
    found = inspect.signature(find(path)).parameters
    for name, default in expected.items():
        assert name in found, f"{path} has no {name}"
        if default is not ANY:
            assert found[name].default == default, f"{path}({name}=...)"
    order = [name for name in found if name in expected]
    needed = [name for name in order if expected[name] is NEEDED]
    assert order[: len(needed)] == needed


@pytest.mark.parametrize("path", SIGNATURES)
def test_arguments(path):
    check(path, SIGNATURES[path])


def test_arguments_of_the_trainer_of_functions():
    found = inspect.signature(DataParallelTrainer).parameters
    assert {name: found[name].default for name in TRAINER} == TRAINER
    assert found["backend_config"].default is None


@pytest.mark.parametrize("path", OF_TORCH)
def test_arguments_of_torch(path):
    pytest.importorskip("torch")
    check(path, OF_TORCH[path])


@pytest.mark.parametrize(
    ("enum", "members"),
    [
        ("CheckpointConsistencyMode", {"COMMITTED", "VALIDATED"}),
        ("CheckpointUploadMode", {"ASYNC", "SYNC", "NO_UPLOAD"}),
        (
            "ReportedCheckpointStatus",
            {"COMMITTED", "PENDING_VALIDATION", "VALIDATED", "VALIDATION_TIMEOUT", "VALIDATION_FAILED"},
        ),
    ],
)
def test_members(enum, members):
    assert set(getattr(train, enum).__members__) == members


@pytest.mark.parametrize("name", ["WorkerGroupError", "NCCLHangError", "ControllerError", "PreemptionError"])
def test_errors_are_failures_of_training(name):
    assert issubclass(getattr(train, name), train.TrainingFailedError)


def test_a_hang_is_a_failure_of_workers():
    assert issubclass(train.NCCLHangError, train.WorkerGroupError)


def test_errors_hold_what_they_are_made_of():
    cause = ValueError("x")
    assert train.WorkerGroupError("text", {3: cause}).worker_failures == {3: cause}
    assert train.ControllerError(cause).controller_failure is cause
    info = train.PreemptionInfo(deadline_ms=5, preempted_node_to_ranks={"a": [1], "b": [0, 2]})
    error = train.PreemptionError(info, drain_timed_out=True)
    assert error.preemption_info == info and error.drain_timed_out is True
    assert sorted(info.preempted_ranks) == [0, 1, 2]
    assert sorted(info.preempted_node_ids) == ["a", "b"]


def test_the_key_of_the_dataset_that_is_meant():
    assert train.TRAIN_DATASET_KEY == "train"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"CPU": 1}),
        ({"num_workers": 3}, {"CPU": 3}),
        ({"num_workers": 2, "resources_per_worker": {"CPU": 2, "x": 1}}, {"CPU": 4, "x": 2}),
        ({"num_workers": 2, "use_gpu": True}, {"GPU": 2}),
        (
            {"num_workers": 2, "use_gpu": True, "resources_per_worker": {"CPU": 3}},
            {"CPU": 6, "GPU": 2},
        ),
        ({"num_workers": (1, 3)}, {"CPU": 3}),
    ],
)
def test_resources_of_all_workers(given, found):
    total = {name: amount for name, amount in train.ScalingConfig(**given).total_resources.items() if amount}
    assert total == found


@pytest.mark.parametrize(
    ("workers", "elastic", "least", "most"), [(2, False, 2, 2), ((2, 4), True, 2, 4), (0, False, 0, 0)]
)
def test_numbers_of_workers(workers, elastic, least, most):
    config = train.ScalingConfig(num_workers=workers)
    assert (config.elasticity_enabled, config.min_workers, config.max_workers) == (elastic, least, most)


def test_what_a_run_config_fills_in():
    config = train.RunConfig()
    assert isinstance(config.failure_config, train.FailureConfig)
    assert isinstance(config.checkpoint_config, train.CheckpointConfig)
    assert config.failure_config.max_failures == 0
    assert config.checkpoint_config.num_to_keep is None


@pytest.mark.parametrize("field", ["sync_config", "verbose", "stop", "progress_reporter", "log_to_file"])
def test_fields_of_a_run_that_are_gone(field):
    with pytest.raises(DeprecationWarning):
        train.RunConfig(**{field: 1})


@pytest.mark.parametrize("field", ["checkpoint_frequency", "checkpoint_at_end"])
def test_fields_of_checkpoints_that_are_gone(field):
    with pytest.raises(DeprecationWarning):
        train.CheckpointConfig(**{field: 1})


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: train.CheckpointConfig(num_to_keep=0), ValueError),
        (lambda: train.CheckpointConfig(num_to_keep=-1), ValueError),
        (lambda: train.CheckpointConfig(checkpoint_score_order="up"), ValueError),
        (lambda: train.ScalingConfig(num_workers=1, resources_per_worker={"GPU": 1}), ValueError),
        (lambda: train.ScalingConfig(num_workers=(3, 1)), ValueError),
    ],
)
def test_values_that_cannot_be(make, kind):
    with pytest.raises(kind):
        make()


def test_a_checkpoint_is_what_is_at_a_path(tmp_path):
    first, second = train.Checkpoint.from_directory(tmp_path), train.Checkpoint(str(tmp_path))
    assert first.path == second.path == str(tmp_path)
    assert first.filesystem.type_name == second.filesystem.type_name == "local"


@pytest.mark.parametrize("name", ["accelerate", "backward", "prepare_optimizer"])
def test_names_of_torch_that_are_gone(name):
    pytest.importorskip("torch")
    from ray.train import torch as of_torch

    with pytest.raises(DeprecationWarning):
        getattr(of_torch, name)(*([] if name == "accelerate" else [None]))
