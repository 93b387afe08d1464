"""Every argument of every method of a configuration, and the default of every field, as a table has them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

TABLE = json.loads((Path(__file__).parents[2] / "rllib" / "config_of_ray.json").read_text())
CLASSES = {each.__name__: each for each in (AlgorithmConfig, PPOConfig, DQNConfig, SACConfig)}
CASES = [(name, method) for name in CLASSES for method in TABLE[name]["methods"]]


def plain(value: Any) -> Any:
    """Return a value with tuples as lists, as JSON has it; objects by the name of their class."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return {"type": type(value).__name__}


@pytest.mark.parametrize(("name", "method"), CASES, ids=["-".join(case) for case in CASES])
def test_a_method_takes_these_arguments_and_their_fields_have_these_defaults(name: str, method: str) -> None:
    config, arguments = CLASSES[name](), TABLE[name]["methods"][method]
    taken = set(inspect.signature(getattr(type(config), method)).parameters)
    assert set(arguments) <= taken
    fields = {**TABLE["AlgorithmConfig"]["fields"], **TABLE[name]["fields"]}
    expected = {each: fields[each] for each in arguments if each in fields and each != "model"}
    objects = {
        each for each, value in expected.items() if isinstance(value, dict) and list(value) == ["type"]
    }
    assert {each: plain(getattr(config, each)) for each in expected.keys() - objects} == {
        each: value for each, value in expected.items() if each not in objects
    }
    assert all(hasattr(config, each) for each in objects)
    for each in expected.keys() - objects:
        assert plain(config[each]) == expected[each] and each in config
    assert getattr(config, method)() is config  # nothing given, nothing changed
    assert {each: plain(getattr(config, each)) for each in expected} == {
        each: plain(getattr(CLASSES[name](), each)) for each in expected
    }


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("environment", {"env": "CartPole-v1", "env_config": {"a": 1}, "clip_rewards": True, "normalize_actions": False}),
    ("environment", {"clip_actions": True, "disable_env_checking": True, "is_atari": False, "render_env": True}),
    ("environment", {"action_mask_key": "mask"}),
    ("env_runners", {"num_cpus_per_env_runner": 2, "num_gpus_per_env_runner": 0.5, "create_local_env_runner": False}),
    ("env_runners", {"gym_env_vectorize_mode": "async", "create_env_on_local_worker": True}),
    ("env_runners", {"custom_resources_per_env_runner": {"x": 1}, "max_requests_in_flight_per_env_runner": 3}),
    ("env_runners", {"episode_lookback_horizon": 4, "compress_observations": True, "episodes_to_numpy": False}),
    ("env_runners", {"merge_env_runner_states": False, "broadcast_env_runner_states": False}),
    ("env_runners", {"validate_env_runners_after_construction": False, "rollout_fragment_length": "auto"}),
    ("env_runners", {"add_default_connectors_to_env_to_module_pipeline": False}),
    ("env_runners", {"add_default_connectors_to_module_to_env_pipeline": False}),
    ("learners", {"num_cpus_per_learner": 3, "local_gpu_idx": 1, "num_aggregator_actors_per_learner": 2}),
    ("learners", {"max_requests_in_flight_per_learner": 5, "custom_resources_per_learner": {"y": 2}}),
    ("training", {"train_batch_size_per_learner": 64, "shuffle_batch_per_epoch": False, "grad_clip_by": "value"}),
    ("training", {"learner_config_dict": {"a": 1}, "add_default_connectors_to_learner_pipeline": False}),
    ("training", {"use_critic": False, "use_gae": False, "lambda_": 0.9, "kl_coeff": 0.3, "kl_target": 0.02}),
    ("training", {"clip_param": 0.1, "vf_clip_param": 5.0, "lr": [[0, 0.1], [9, 0.2]]}),
    ("evaluation", {"evaluation_duration_unit": "timesteps", "evaluation_sample_timeout_s": 5.0}),
    ("evaluation", {"evaluation_parallel_to_training": True, "evaluation_force_reset_envs_before_iteration": False}),
    ("evaluation", {"evaluation_auto_duration_min_env_steps_per_sample": 7, "evaluation_interval": 5}),
    ("evaluation", {"evaluation_auto_duration_max_env_steps_per_sample": 9, "evaluation_duration": 4}),
    ("reporting", {"min_train_timesteps_per_iteration": 3, "min_sample_timesteps_per_iteration": 4}),
    ("reporting", {"keep_per_episode_custom_metrics": True, "log_gradients": True}),
    ("checkpointing", {"export_native_model_files": True, "checkpoint_trainable_policies_only": True}),
    ("debugging", {"seed": 5, "log_level": "INFO", "log_sys_usage": False}),
    ("fault_tolerance", {"ignore_env_runner_failures": True, "delay_between_env_runner_restarts_s": 3}),
    ("fault_tolerance", {"env_runner_health_probe_timeout_s": 3.0, "restart_failed_sub_environments": True}),
    ("fault_tolerance", {"num_consecutive_env_runner_failures_tolerance": 7}),
    ("fault_tolerance", {"env_runner_restore_timeout_s": 100.0}),
    ("python_environment", {"extra_python_environs_for_driver": {"A": "1"}}),
    ("python_environment", {"extra_python_environs_for_worker": {"B": "2"}}),
    ("resources", {"num_cpus_for_main_process": 2, "placement_strategy": "SPREAD"}),
    ("experimental", {"_disable_preprocessor_api": True, "_validate_config": False}),
    ("framework", {"framework": "torch"}),
    ("rl_module", {"model_config": {"fcnet_hiddens": [3]}}),
    ("offline_data", {"input_read_batch_size": 7, "materialize_data": True, "dataset_num_iters_per_learner": 3}),
]  # fmt: skip


#: Fields that a dict of the configuration has by another name than the attribute.
UNDER_ANOTHER_NAME = ("is_atari", "create_env_on_local_worker", "train_batch_size_per_learner", "lambda_")


@pytest.mark.parametrize(
    ("method", "settings"), SETTINGS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_each_setting_is_an_attribute_and_an_item(method: str, settings: dict[str, Any]) -> None:
    before = PPOConfig()
    config = getattr(PPOConfig(), method)(**settings)
    for name, value in settings.items():
        field = "framework_str" if name == "framework" else name
        found = getattr(config, field)
        assert (found if name != "model_config" else {**found, **value} == found and value) == value
        if name not in ("framework", "model_config"):
            assert config[name] == value and getattr(config.copy(), field) == value
        if name not in ("framework", "model_config", *UNDER_ANOTHER_NAME):
            assert config.to_dict()[name] == value
            assert getattr(PPOConfig.from_dict(config.to_dict()), field) == value
    assert before.to_dict().keys() == config.to_dict().keys()


NETWORKS = {
    "fcnet_hiddens": [256, 256], "fcnet_activation": "tanh", "fcnet_kernel_initializer": None,
    "fcnet_bias_initializer": None, "fcnet_use_layernorm": False, "conv_filters": None, "conv_activation": "relu",
    "head_fcnet_hiddens": [], "head_fcnet_activation": "relu", "free_log_std": False,
    "log_std_clip_param": 20.0, "vf_share_layers": True, "use_lstm": False, "max_seq_len": 20, "lstm_cell_size": 256,
}  # fmt: skip


@pytest.mark.parametrize(("name", "default"), NETWORKS.items(), ids=NETWORKS)
def test_settings_of_networks_have_these_defaults(name: str, default: Any) -> None:
    assert plain(getattr(DefaultModelConfig(), name)) == default
    assert getattr(DefaultModelConfig(**{name: 1}), name) == 1
