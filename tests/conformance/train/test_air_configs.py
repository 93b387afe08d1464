"""Settings under `ray.air`, which searches take."""

from __future__ import annotations

from typing import Any

import pytest
from ray import air, train, tune


@pytest.mark.parametrize(
    "config",
    [
        air.ScalingConfig(),
        air.ScalingConfig(use_gpu=True),
        air.ScalingConfig(num_workers=3, resources_per_worker={"CPU": 2, "extra": 1}),
        air.ScalingConfig(trainer_resources={"CPU": 0}, placement_strategy="SPREAD"),
        air.FailureConfig(),
        air.FailureConfig(max_failures=2),
        air.FailureConfig(max_failures=-1),
        air.FailureConfig(fail_fast="raise"),
        air.CheckpointConfig(),
        air.CheckpointConfig(num_to_keep=1),
        air.CheckpointConfig(checkpoint_score_attribute="loss", checkpoint_score_order="min"),
        air.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
        air.RunConfig(),
        air.RunConfig(name="experiment"),
        air.RunConfig(stop={"training_iteration": 3}),
        air.RunConfig(failure_config=air.FailureConfig(max_failures=1)),
    ],
    ids=repr,
)
def test_a_config_shows_what_was_said_and_is_made_from_it(config: Any) -> None:
    names = {
        name: getattr(air, name)
        for name in ("ScalingConfig", "FailureConfig", "CheckpointConfig", "RunConfig")
    }
    assert eval(repr(config), names) == config
    assert len(repr(config)) < 120


@pytest.mark.parametrize(
    ("kind", "given", "phrase"),
    [
        ("FailureConfig", {"fail_fast": "fail"}, "fail_fast must be one of"),
        ("FailureConfig", {"fail_fast": True, "max_failures": 1}, "max_failures must be 0 if fail_fast=True"),
        ("FailureConfig", {"fail_fast": "raise", "max_failures": 1}, "max_failures must be 0"),
        ("CheckpointConfig", {"num_to_keep": 0}, "Received invalid num_to_keep"),
        ("CheckpointConfig", {"num_to_keep": -1}, "Must be None or an integer >= 1"),
        (
            "CheckpointConfig",
            {"checkpoint_score_order": "up"},
            'checkpoint_score_order must be either "max" or "min"',
        ),
        ("CheckpointConfig", {"checkpoint_frequency": -1}, "checkpoint_frequency must be >=0"),
    ],
)
@pytest.mark.parametrize("module", [air, tune], ids=["air", "tune"])
def test_a_wrong_value_is_refused(module: Any, kind: str, given: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        getattr(module, kind)(**given)


@pytest.mark.parametrize(
    ("kind", "given", "phrase"),
    [
        ("RunConfig", {"local_dir": "/somewhere"}, "storage_path"),
        ("CheckpointConfig", {"_checkpoint_keep_all_ranks": True}, "_checkpoint_keep_all_ranks"),
        ("CheckpointConfig", {"_checkpoint_upload_from_workers": True}, "_checkpoint_upload_from_workers"),
    ],
)
@pytest.mark.parametrize("module", [air, tune], ids=["air", "tune"])
def test_what_is_gone_is_refused(module: Any, kind: str, given: dict[str, Any], phrase: str) -> None:
    with pytest.raises(DeprecationWarning, match=phrase):
        getattr(module, kind)(**given)


@pytest.mark.parametrize("module", [air, train], ids=["air", "train"])
def test_gpus_without_use_gpu_are_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="`use_gpu` is False but `GPU` was found in"):
        module.ScalingConfig(resources_per_worker={"GPU": 1})


RESOURCES = [(None, False), (None, True), ({"CPU": 1}, False), ({"CPU": 2, "GPU": 1}, True)]


@pytest.mark.parametrize("own", [None, {}, {"CPU": 1}, {"CPU": 2, "GPU": 1}, {"CPU": 0}])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("each", RESOURCES, ids=str)
@pytest.mark.parametrize("strategy", ["PACK", "SPREAD"])
def test_a_scaling_config_is_the_same_as_its_request(
    own: Any, workers: int, each: tuple[Any, bool], strategy: str
) -> None:
    config = air.ScalingConfig(own, workers, each[1], each[0], strategy)
    request = config.as_placement_group_factory()
    again = air.ScalingConfig.from_placement_group_factory(request)
    assert again.as_placement_group_factory().required_resources == request.required_resources
    assert again.placement_strategy == strategy
    assert again.num_workers == workers
    total = {name: amount for name, amount in config.total_resources.items() if amount}
    assert request.required_resources == total


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({}, {"CPU": 2}),
        ({"num_workers": 2}, {"CPU": 3}),
        ({"num_workers": 2, "use_gpu": True}, {"CPU": 1, "GPU": 2}),
        ({"num_workers": 2, "trainer_resources": {"CPU": 0}}, {"CPU": 2}),
        ({"resources_per_worker": {"x": 2}}, {"CPU": 1, "x": 2}),
        ({"accelerator_type": "H100", "use_gpu": True}, {"CPU": 1, "GPU": 1, "accelerator_type:H100": 0.001}),
    ],
)
def test_what_a_run_of_old_asks_for_in_all(given: dict[str, Any], total: dict[str, float]) -> None:
    assert air.ScalingConfig(**given).total_resources == total


@pytest.mark.parametrize(
    ("given", "bundles"),
    [
        ({"num_workers": 2}, [{"CPU": 1}, {"CPU": 1}]),
        ({"num_workers": 2, "use_gpu": True}, [{"GPU": 1}, {"GPU": 1}]),
        ({"num_workers": 1, "resources_per_worker": {"CPU": 3}}, [{"CPU": 3}]),
    ],
)
def test_a_request_of_a_run_of_today_has_no_trainer(
    given: dict[str, Any], bundles: list[dict[str, float]]
) -> None:
    request = train.ScalingConfig(**given).as_placement_group_factory()
    assert request.bundles == bundles
    assert request.head_bundle_is_empty


def test_defaults_of_a_run_config_are_made() -> None:
    for module in (air, tune):
        config = module.RunConfig()
        assert config.verbose == 1
        assert config.storage_path.endswith("/ray_results")
        assert config.failure_config == module.FailureConfig()
        assert config.checkpoint_config == module.CheckpointConfig()
        assert config.sync_config.sync_period == 300
        assert config.log_to_file is False


def test_settings_of_tune_are_settings_of_air() -> None:
    for name in ("RunConfig", "FailureConfig", "CheckpointConfig"):
        assert issubclass(getattr(tune, name), getattr(air, name))
    assert issubclass(train.ScalingConfig, air.ScalingConfig)
    assert issubclass(train.FailureConfig, air.FailureConfig)


@pytest.mark.parametrize("name", ["ScalingConfig", "RunConfig"])
def test_a_trainer_refuses_settings_of_air(name: str) -> None:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    argument = {"ScalingConfig": "scaling_config", "RunConfig": "run_config"}[name]
    given: dict[str, Any] = {argument: getattr(air, name)()}
    with pytest.raises(ValueError, match=f"Invalid `{name}` type.*Use `ray.train.{name}` instead"):
        DataParallelTrainer(lambda: None, **given)


@pytest.mark.parametrize("name", ["FailureConfig", "CheckpointConfig"])
def test_a_run_config_of_train_refuses_settings_of_air(name: str) -> None:
    argument = {"FailureConfig": "failure_config", "CheckpointConfig": "checkpoint_config"}[name]
    given: dict[str, Any] = {argument: getattr(air, name)()}
    with pytest.raises(ValueError, match=f"Invalid `{name}` type"):
        train.RunConfig(**given)


@pytest.mark.parametrize(("order", "text"), [("max", "metric"), ("min", "min-metric")])
def test_the_score_of_checkpoints_as_tune_run_takes_it(order: str, text: str) -> None:
    config = air.CheckpointConfig(checkpoint_score_attribute="metric", checkpoint_score_order=order)
    assert config._tune_legacy_checkpoint_score_attr == text
    assert air.CheckpointConfig()._tune_legacy_checkpoint_score_attr is None


def test_a_search_takes_a_run_config_of_air(cluster: Any, tmp_path: Any) -> None:
    run = air.RunConfig(name="of-air", storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0)

    def endless(config: dict[str, Any]) -> None:
        while True:
            tune.report({"x": 1})

    result = tune.Tuner(endless, run_config=run).fit()[0]
    assert result.metrics["training_iteration"] == 2
    assert result.path.startswith(str(tmp_path / "of-air"))
