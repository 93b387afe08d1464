"""Rejected run configurations, their messages, and the values that the configurations derive."""

from __future__ import annotations

import pathlib

import pytest
from ray import train, tune
from ray.train import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, ScalingConfig
from trainers import DataParallelTrainer


def nothing():
    pass


def trainer(**given):
    return DataParallelTrainer(nothing, **given)


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (lambda: ScalingConfig(trainer_resources={"CPU": 1}), r"`ray.train.ScalingConfig\(trainer_resources\)` is deprecated"),
        (lambda: ScalingConfig(trainer_resources={}), "trainer_resources"),
        (lambda: FailureConfig(fail_fast=True), r"`ray.train.FailureConfig\(fail_fast\)` is deprecated"),
        (lambda: FailureConfig(fail_fast=False), r"FailureConfig\(fail_fast\)"),
        (lambda: FailureConfig(fail_fast="raise"), r"FailureConfig\(fail_fast\)"),
        (lambda: CheckpointConfig(checkpoint_frequency=1), "`checkpoint_frequency` is deprecated"),
        (lambda: CheckpointConfig(checkpoint_frequency=None), "`checkpoint_frequency` is deprecated"),
        (lambda: CheckpointConfig(checkpoint_at_end=True), "`checkpoint_at_end` is deprecated"),
        (lambda: CheckpointConfig(checkpoint_at_end=False), "`checkpoint_at_end` is deprecated"),
        (lambda: RunConfig(stop={"a": 1}), r"`RunConfig\(stop\)` is deprecated"),
        (lambda: RunConfig(stop=None), r"`RunConfig\(stop\)` is deprecated"),
        (lambda: RunConfig(sync_config=train.SyncConfig()), r"`RunConfig\(sync_config\)` is deprecated"),
        (lambda: RunConfig(verbose=0), r"`RunConfig\(verbose\)` is deprecated"),
        (lambda: RunConfig(progress_reporter=None), r"`RunConfig\(progress_reporter\)` is deprecated"),
        (lambda: RunConfig(log_to_file=False), r"`RunConfig\(log_to_file\)` is deprecated"),
        (lambda: RunConfig(log_to_file=("a", "b")), r"`RunConfig\(log_to_file\)` is deprecated"),
        (lambda: trainer(resume_from_checkpoint=train.Checkpoint("/tmp")), "`resume_from_checkpoint` is deprecated"),
        (lambda: trainer(metadata={"a": 1}), "metadata"),
        (lambda: trainer(metadata={}), "metadata"),
        (lambda: DataParallelTrainer.restore("/tmp/nowhere"), "`restore` and `can_restore` APIs are deprecated"),
        (lambda: DataParallelTrainer.restore(), "`restore` and `can_restore` APIs are deprecated"),
        (lambda: DataParallelTrainer.can_restore("/tmp/nowhere"), "`restore` and `can_restore` APIs are deprecated"),
        (lambda: DataParallelTrainer.can_restore(path="/tmp", storage_filesystem=None), "`restore` and `can_restore`"),
    ],
)  # fmt: skip
def test_what_is_gone_is_refused(make, phrase):
    with pytest.raises(DeprecationWarning, match=phrase):
        make()


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"num_workers": -1}, "Number of workers cannot be negative"),
        ({"num_workers": (-1, 2)}, "Number of workers cannot be negative"),
        ({"num_workers": (3, 1)}, "must be <= max_workers"),
        ({"num_workers": (1,)}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": (1, 2, 3)}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": [1, 2]}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": 1.5}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": "2"}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": None}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"num_workers": (1, 2.0)}, r"ScalingConfig\(num_workers\) must be an int or a tuple of two ints"),
        ({"elastic_resize_monitor_interval_s": -1}, "must be non-negative"),
        ({"resources_per_worker": {"GPU": 1}}, "`use_gpu` is False but `GPU` was found in `resources_per_worker`"),
        ({"resources_per_worker": {"GPU": 0.5}}, "`use_gpu` is False but `GPU` was found"),
        ({"use_gpu": True, "use_tpu": True}, "Cannot specify both `use_gpu=True` and `use_tpu=True`"),
        ({"resources_per_worker": {"TPU": 4}}, "`use_tpu` is False but `TPU` was found in `resources_per_worker`"),
        ({"use_tpu": True, "resources_per_worker": {"TPU": 0}}, "`use_tpu` is True but `TPU` is set to 0"),
        ({"use_tpu": True, "num_workers": 2}, "`topology` must be specified in ScalingConfig"),
        ({"use_tpu": True, "num_workers": 2, "topology": "2x2x2"}, "`accelerator_type` must be specified in ScalingConfig"),
        (
            {"use_tpu": True, "num_workers": 2, "topology": "2x2x2", "accelerator_type": "TPU-V4", "label_selector": {"a": "b"}},
            "Cannot set `label_selector` when `use_tpu=True`",
        ),
        (
            {"use_tpu": True, "num_workers": 3, "topology": "2x2x2", "accelerator_type": "TPU-V4"},
            r"The configured `num_workers` \(3\) must be a multiple of 2 for the specified topology \(2x2x2\)",
        ),
        (
            {"use_tpu": True, "num_workers": (1, 2), "topology": "2x2x2", "accelerator_type": "TPU-V4"},
            r"The configured `min_workers` \(1\) must be a multiple of 2",
        ),
        (
            {"use_tpu": True, "num_workers": 2, "topology": "2x2x2", "accelerator_type": "tpu-of-nobody"},
            "Could not parse TPU topology details for type=tpu-of-nobody, topology=2x2x2",
        ),
        ({"num_workers": 2, "label_selector": [{"a": "b"}]}, "If `label_selector` is a list, it must be the same length"),
        ({"num_workers": (1, 3), "label_selector": [{}, {}]}, "it must be the same length as `max_workers`"),
    ],
)  # fmt: skip
def test_scaling_refuses(given, phrase):
    with pytest.raises(ValueError, match=phrase):
        ScalingConfig(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"num_workers": 0},
        {"num_workers": (0, 2)},
        {"num_workers": (2, 2)},
        {"elastic_resize_monitor_interval_s": 0},
        {"elastic_resize_monitor_interval_s": 1},
        {"resources_per_worker": {}},
        {"resources_per_worker": {"CPU": 0}},
        {"resources_per_worker": {"GPU": 0}},
        {"resources_per_worker": {"CPU": 0.5, "memory": 1e9, "special": 2}},
        {"use_gpu": True, "resources_per_worker": {"GPU": 0.5}},
        {"label_selector": {"a": "b"}, "num_workers": 3},
        {"label_selector": [{"a": "b"}, {}], "num_workers": 2},
        {"accelerator_type": "H100", "use_gpu": True},
        {"placement_strategy": "SPREAD"},
        {"placement_strategy": "STRICT_PACK"},
        {"use_tpu": True},
        {"topology": "2x2"},
    ],
)
def test_scaling_takes(given):
    config = ScalingConfig(**given)
    assert all(getattr(config, name) == value for name, value in given.items())


@pytest.mark.parametrize(
    ("given", "of_one"),
    [
        ({}, (1, 0, {})),
        ({"use_gpu": True}, (0, 1, {})),
        ({"use_gpu": True, "resources_per_worker": {"CPU": 4}}, (4, 1, {})),
        ({"use_gpu": True, "resources_per_worker": {"GPU": 2}}, (0, 2, {})),
        ({"resources_per_worker": {"CPU": 2, "special": 1}}, (2, 0, {"special": 1})),
        ({"resources_per_worker": {"CPU": 2, "special": 0}}, (2, 0, {})),
        ({"resources_per_worker": {"memory": 1e9}}, (0, 0, {"memory": 1e9})),
        ({"resources_per_worker": {}}, (0, 0, {})),
        ({"accelerator_type": "A100", "use_gpu": True}, (0, 1, {"accelerator_type:A100": 0.001})),
        ({"accelerator_type": "A100"}, (1, 0, {"accelerator_type:A100": 0.001})),
    ],
)
def test_what_one_worker_has(given, of_one):
    config = ScalingConfig(**given)
    found = (config.num_cpus_per_worker, config.num_gpus_per_worker, config.additional_resources_per_worker)
    assert found == of_one


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"num_workers": 2, "accelerator_type": "A100", "use_gpu": True}, {"GPU": 2, "accelerator_type:A100": 0.002}),
        ({"num_workers": 3, "resources_per_worker": {"CPU": 2, "memory": 5.0}}, {"CPU": 6, "memory": 15.0}),
        ({"num_workers": (2, 5), "use_gpu": True}, {"GPU": 5}),
        ({"num_workers": 0}, {"CPU": 0}),
        ({"use_tpu": True}, {"TPU": 1}),
    ],
)  # fmt: skip
def test_what_all_workers_have(given, total):
    assert ScalingConfig(**given).total_resources == total


def test_configurations_of_the_same_values_are_equal():
    assert ScalingConfig(num_workers=2) == ScalingConfig(num_workers=2)
    assert ScalingConfig(num_workers=2) != ScalingConfig(num_workers=3)
    assert FailureConfig(max_failures=2) == FailureConfig(max_failures=2)
    assert CheckpointConfig(num_to_keep=2) == CheckpointConfig(num_to_keep=2)
    assert CheckpointConfig(num_to_keep=2) != CheckpointConfig(num_to_keep=3)


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"num_to_keep": 0}, r"Received invalid num_to_keep: 0. Must be None or an integer >= 1"),
        ({"num_to_keep": -3}, r"Received invalid num_to_keep: -3"),
        (
            {"checkpoint_score_order": "up"},
            "Received invalid checkpoint_score_order: up. Must be 'max' or 'min'",
        ),
        ({"checkpoint_score_order": None}, "Received invalid checkpoint_score_order: None"),
    ],
)
def test_which_checkpoints_are_kept_cannot_be(given, phrase):
    with pytest.raises(ValueError, match=phrase):
        CheckpointConfig(**given)


@pytest.mark.parametrize("level", ["LOUD", "", 10, None, "info "])
def test_levels_of_logging_that_are_refused(level):
    with pytest.raises(ValueError, match="Invalid log_level: .*Must be one of: 'CRITICAL', 'DEBUG'"):
        LoggingConfig(log_level=level)


@pytest.mark.parametrize(
    ("level", "found"),
    [("debug", "DEBUG"), ("Info", "INFO"), ("WARN", "WARN"), ("warning", "WARNING"), ("NOTSET", "NOTSET"), ("fatal", "FATAL")],
)  # fmt: skip
def test_levels_of_logging_are_written_in_capitals(level, found):
    assert LoggingConfig(log_level=level).log_level == found
    assert RunConfig(logging_config=LoggingConfig(log_level=level)).logging_config.log_level == found


class NoCallback:
    pass


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"callbacks": [NoCallback()]}, "All callbacks must be instances of `ray.train.UserCallback`"),
        ({"callbacks": [tune.Callback()]}, "All callbacks must be instances of `ray.train.UserCallback`"),
        ({"callbacks": [train.UserCallback(), 5]}, "All callbacks must be instances of `ray.train.UserCallback`"),
        ({"callbacks": [train.UserCallback]}, "All callbacks must be instances of `ray.train.UserCallback`"),
        ({"checkpoint_config": tune.CheckpointConfig()}, "Invalid `CheckpointConfig` type.*Use `ray.train.CheckpointConfig`"),
        ({"checkpoint_config": {"num_to_keep": 1}}, "Invalid `CheckpointConfig` type"),
        ({"failure_config": tune.FailureConfig()}, "Invalid `FailureConfig` type.*Use `ray.train.FailureConfig` instead"),
        ({"failure_config": 3}, "Invalid `FailureConfig` type"),
    ],
)  # fmt: skip
def test_a_run_refuses(given, phrase):
    with pytest.raises(ValueError, match=phrase):
        RunConfig(**given)


def test_a_run_has_a_name_and_a_place():
    config = RunConfig()
    assert config.name.startswith("ray_train_run-")
    assert config.storage_path and isinstance(config.storage_path, str)
    assert (config.callbacks, config.worker_runtime_env) == ([], {})
    assert isinstance(config.logging_config, LoggingConfig) and config.storage_filesystem is None


def test_a_name_that_is_said_is_kept(tmp_path):
    config = RunConfig(name="mine", storage_path=pathlib.Path(tmp_path))
    assert (config.name, config.storage_path) == ("mine", str(tmp_path))


@pytest.mark.parametrize("name", ["", None])
def test_a_run_of_no_name_is_given_one(name):
    assert RunConfig(name=name).name.startswith("ray_train_run-")


@pytest.mark.parametrize("callbacks", [None, [], [train.UserCallback()]])
def test_callbacks_are_a_list(callbacks):
    assert RunConfig(callbacks=callbacks).callbacks == (callbacks or [])


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"run_config": tune.RunConfig()}, "Invalid `RunConfig` type.*Use `ray.train.RunConfig` instead"),
    ],
)
def test_a_trainer_refuses_the_configurations_of_a_search(given, phrase):
    with pytest.raises(ValueError, match=phrase):
        trainer(**given)


def test_a_trainer_refuses_a_scaling_config_of_another_kind():
    from ray.air.config import ScalingConfig as OfAir

    if OfAir is not ScalingConfig:
        with pytest.raises(ValueError, match="Invalid `ScalingConfig` type"):
            trainer(scaling_config=OfAir())


@pytest.mark.parametrize("name", ["preprocessor", "num_workers", "config", "epochs"])
def test_a_trainer_takes_no_other_arguments(name):
    with pytest.raises(TypeError, match=name):
        trainer(**{name: 1})


def test_a_trainer_keeps_what_it_is_given():
    scaling, run, data = ScalingConfig(num_workers=2), RunConfig(name="x"), train.DataConfig()
    made = trainer(scaling_config=scaling, run_config=run, train_loop_config={"a": 1}, dataset_config=data)
    assert made.scaling_config is scaling and made.run_config is run and made.data_config is data
    assert made.train_loop_config == {"a": 1} and made.train_loop_per_worker is nothing
    assert made.datasets == {} and made.validation_config is None


def test_what_a_trainer_fills_in():
    made = trainer()
    assert made.scaling_config == ScalingConfig() and isinstance(made.run_config, RunConfig)
    assert isinstance(made.data_config, train.DataConfig) and made.train_loop_config is None


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: train.report({"a": 1}), "report"),
        (lambda: train.get_context(), "get_context"),
        (lambda: train.get_checkpoint(), "get_checkpoint"),
        (lambda: train.get_dataset_shard(), "get_dataset_shard"),
        (lambda: train.get_all_reported_checkpoints(), "get_all_reported_checkpoints"),
        (lambda: train.get_preemption_info(), "get_preemption_info"),
        (lambda: train.collective.barrier(), "barrier"),
        (lambda: train.collective.broadcast_from_rank_zero(1), "broadcast_from_rank_zero"),
    ],
)
def test_calls_outside_of_a_training_function(call, name):
    import ray.train.collective  # noqa: F401

    with pytest.raises(
        RuntimeError, match=f"`{name}` cannot be used outside of a Ray Train training function"
    ):
        call()


def test_a_task_of_validation_has_arguments_and_time():
    found = train.ValidationTaskConfig()
    assert (found.fn_kwargs, found.timeout_s) == ({}, None)
    assert train.ValidationTaskConfig(fn_kwargs={"a": 1}, timeout_s=2).fn_kwargs == {"a": 1}
    assert train.ValidationTaskConfig(timeout_s=0.5) == train.ValidationTaskConfig(timeout_s=0.5)


@pytest.mark.parametrize("time", [0, -1, -0.5])
def test_a_task_of_validation_needs_some_time(time):
    with pytest.raises(AssertionError, match="`timeout_s` should be None or greater than zero"):
        train.ValidationTaskConfig(timeout_s=time)


def test_what_validation_fills_in():
    found = train.ValidationConfig(fn=nothing)
    assert found.fn is nothing and found.ray_remote_kwargs == {}
    assert found.task_config == train.ValidationTaskConfig()
