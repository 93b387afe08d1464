"""Configurations: fluent methods, attributes and items, copies, conversion, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import ray.cloudpickle
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import get_trainable_cls


def small() -> PPOConfig:
    return PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)


def test_methods_return_the_configuration_and_set_attributes_and_items() -> None:
    config = PPOConfig()
    assert config.environment("CartPole-v1", env_config={"a": 1}) is config
    assert config.training(lr=0.1, gamma=0.5, lambda_=0.7, clip_param=0.2) is config
    assert (config.env, config["env"], config.get("env")) == ("CartPole-v1",) * 3
    assert (config.lr, config["lr"], config["gamma"], config.clip_param) == (0.1, 0.1, 0.5, 0.2)
    assert (config.lambda_, config["lambda"]) == (0.7, 0.7)
    config["lr"] = 0.3
    config.gamma = 0.4
    assert (config.lr, config["gamma"]) == (0.3, 0.4)
    assert "lr" in config and "no_such_field" not in config
    assert config.get("no_such_field") is None and config.get("no_such_field", 3) == 3
    assert set(config.keys()) == set(config.to_dict())
    assert dict(config.items())["lr"] == 0.3


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("env_runners", {"num_env_runners": 3, "num_envs_per_env_runner": 4, "sample_timeout_s": 5.0}),
        ("env_runners", {"rollout_fragment_length": 7, "batch_mode": "complete_episodes", "explore": False}),
        ("learners", {"num_learners": 2, "num_gpus_per_learner": 0.5}),
        ("training", {"train_batch_size": 100, "minibatch_size": 10, "num_epochs": 3, "grad_clip": 1.0}),
        ("training", {"vf_loss_coeff": 0.1, "entropy_coeff": [[0, 0.1], [100, 0.0]], "use_kl_loss": False}),
        ("evaluation", {"evaluation_interval": 2, "evaluation_duration": 3, "evaluation_num_env_runners": 1}),
        ("reporting", {"min_time_s_per_iteration": 2, "metrics_num_episodes_for_smoothing": 7}),
        ("debugging", {"seed": 3, "log_level": "ERROR", "log_sys_usage": False}),
        ("fault_tolerance", {"restart_failed_env_runners": False, "max_num_env_runner_restarts": 3}),
        ("multi_agent", {"count_steps_by": "agent_steps", "policies_to_train": ["a"]}),
    ],
)
def test_settings_become_attributes_of_the_same_name(method: str, settings: dict[str, Any]) -> None:
    config = getattr(PPOConfig(), method)(**settings)
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.parametrize("kind", [AlgorithmConfig, PPOConfig, DQNConfig, SACConfig])
@pytest.mark.parametrize(
    "method", ["environment", "env_runners", "training", "evaluation", "learners", "debugging"]
)
def test_an_unknown_keyword_is_a_type_error(kind: Any, method: str) -> None:
    with pytest.raises(TypeError, match="no_such_setting"):
        getattr(kind(), method)(no_such_setting=1)


def test_algorithms_have_configurations_of_their_own() -> None:
    for kind, algorithm, name in ((PPOConfig, PPO, "PPO"), (DQNConfig, DQN, "DQN"), (SACConfig, SAC, "SAC")):
        assert kind().algo_class is algorithm is get_trainable_cls(name)
        assert type(algorithm.get_default_config()) is kind
    with pytest.raises(Exception, match="NoSuch"):
        get_trainable_cls("NoSuch")


def test_a_copy_is_independent_and_a_frozen_one_refuses() -> None:
    config = small().training(lr=1.0).environment(env_config={"a": {"b": 1}})
    other = config.copy()
    other.training(lr=2.0)
    other.env_config["a"]["b"] = 2
    assert config.lr == 1.0 and config.env_config == {"a": {"b": 1}}
    config.freeze()
    with pytest.raises(AttributeError, match="frozen"):
        config.lr = 3.0
    with pytest.raises(AttributeError, match="frozen"):
        config.training(lr=3.0)
    with pytest.raises(AttributeError, match="frozen"):
        config.copy().lr = 3.0
    assert config.copy(copy_frozen=False).training(lr=3.0).lr == 3.0
    with pytest.raises(AttributeError, match="frozen"):
        other.copy(copy_frozen=True).lr = 3.0


def test_dicts_and_back() -> None:
    config = small().training(lr=0.25, gamma=0.5).rl_module(model_config={"fcnet_hiddens": [3]})
    found = config.to_dict()
    assert (found["env"], found["lr"], found["num_env_runners"]) == ("CartPole-v1", 0.25, 0)
    assert not {"algo_class", "_is_frozen"} & set(found)
    again = PPOConfig.from_dict(found)
    assert type(again) is PPOConfig and (again.lr, again.env) == (0.25, "CartPole-v1")
    assert again.model_config["fcnet_hiddens"] == [3]
    config = PPOConfig().environment(env_config={"a": 1})
    assert config.update_from_dict({"lr": 0.5, "env_config": {"b": 2}, "lambda": 0.9}) is config
    assert (config.lr, config.env_config, config.lambda_) == (0.5, {"a": 1, "b": 2}, 0.9)
    assert config.update_from_dict({"evaluation_duration": 3}).evaluation_duration == 3


def test_a_pickled_configuration() -> None:
    config = small().training(lr=lambda_free()).callbacks(on_train_result=lambda **kwargs: None)
    again = pickle.loads(ray.cloudpickle.dumps(config))
    assert type(again) is PPOConfig and again.lr == [[0, 0.1], [10, 0.0]]
    assert callable(again.callbacks_on_train_result)


def lambda_free() -> list[list[float]]:
    return [[0, 0.1], [10, 0.0]]


def test_overrides_are_a_dict_of_known_names() -> None:
    assert PPOConfig.overrides(lr=0.1, explore=False) == {"lr": 0.1, "explore": False}
    with pytest.raises(KeyError, match="no_such_field"):
        PPOConfig.overrides(no_such_field=1)
    config = PPOConfig().multi_agent(
        policies={"a", "b"}, algorithm_config_overrides_per_module={"a": PPOConfig.overrides(lr=0.5)}
    )
    assert (config.get_config_for_module("a").lr, config.get_config_for_module("b").lr) == (0.5, config.lr)


def test_modules_of_many_agents() -> None:
    config = PPOConfig()
    assert not config.is_multi_agent and set(config.policies) == {"default_policy"}
    assert config.policy_mapping_fn("someone", None, None) == "default_policy"
    config.multi_agent(policies=["a", "b"], policy_mapping_fn=lambda agent, episode, **kwargs: "a")
    assert set(config.policies) == {"a", "b"} and config.is_multi_agent
    assert config.policy_mapping_fn("someone", None) == "a"
    with pytest.raises(ValueError, match="count_steps_by"):
        PPOConfig().multi_agent(count_steps_by="days")


def test_settings_of_networks() -> None:
    assert PPOConfig().rl_module(model_config={"fcnet_hiddens": [4]}).model_config["fcnet_hiddens"] == [4]
    config = PPOConfig().rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[5], use_lstm=True))
    found = config.model_config
    found = found if isinstance(found, dict) else vars(found)
    assert (found["fcnet_hiddens"], found["use_lstm"]) == ([5], True)
    default = DefaultModelConfig()
    assert (default.fcnet_hiddens, default.fcnet_activation, default.vf_share_layers) == (
        [256, 256],
        "tanh",
        True,
    )
    with pytest.raises(TypeError):
        DefaultModelConfig(no_such_field=1)


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        (lambda: PPOConfig().training(train_batch_size=400).env_runners(num_env_runners=2), (400, 200)),
        (lambda: PPOConfig().training(train_batch_size_per_learner=400).env_runners(num_env_runners=0), (400, 400)),
        (lambda: PPOConfig().training(train_batch_size=400).env_runners(num_env_runners=2, num_envs_per_env_runner=4), (400, 50)),
        (lambda: PPOConfig().training(train_batch_size=401).env_runners(num_env_runners=2), (401, 201)),
        (lambda: PPOConfig().training(train_batch_size=400).env_runners(rollout_fragment_length=20), (400, 20)),
        (lambda: DQNConfig().env_runners(num_env_runners=0), (32, 1)),
        (lambda: SACConfig().env_runners(num_env_runners=0, rollout_fragment_length=6), (256, 6)),
        (lambda: PPOConfig().training(train_batch_size_per_learner=100).learners(num_learners=2), (200, 100)),
    ],
)  # fmt: skip
def test_sizes_of_batches(config: Any, sizes: tuple[int, int]) -> None:
    made = config()
    assert (made.total_train_batch_size, made.get_rollout_fragment_length()) == sizes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: small().training(train_batch_size=100, minibatch_size=200), "minibatch_size"),
        (lambda: small().training(entropy_coeff=-0.1), "entropy_coeff"),
        (lambda: small().training(grad_clip_by="days", grad_clip=1.0), "grad_clip_by"),
        (lambda: small().env_runners(batch_mode="no_such_mode"), "batch_mode"),
        (lambda: small().evaluation(evaluation_interval=1, evaluation_duration=0), "evaluation_duration"),
        (lambda: small().training(lr=[[0, 0.1]]), "lr"),
        (lambda: small().training(lr=[[5, 0.1], [10, 0.2]]), "lr"),
        (lambda: SACConfig().environment("Pendulum-v1").training(lr=0.1), "lr"),
        (lambda: DQNConfig().environment("CartPole-v1").training(td_error_loss_fn="no"), "td_error_loss_fn"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_value_error(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config().validate()


def test_a_configuration_that_fits_is_valid_and_unchanged() -> None:
    for config in (small(), DQNConfig().environment("CartPole-v1"), SACConfig().environment("Pendulum-v1")):
        before = config.lr
        assert config.validate() is None
        assert config.lr == before


@pytest.mark.chosen_difference(
    "Ray accepts these, and fails later or does something else", id="D-rl-checked-settings"
)
def test_what_ray_accepts_and_cannot_work_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="evaluation_duration_unit"):
        small().evaluation(evaluation_interval=1, evaluation_duration_unit="days").validate()
    with pytest.raises(ValueError, match="framework"):
        small().framework("no_such").validate()
    with pytest.raises(ValueError, match="has no algorithm"):
        AlgorithmConfig().environment("CartPole-v1").build_algo()


def test_evaluation_has_a_configuration_of_its_own() -> None:
    config = small().evaluation(evaluation_interval=1, evaluation_config={"explore": False, "gamma": 0.1})
    found = config.get_evaluation_config_object()
    assert (found.explore, found.gamma, found.in_evaluation, found.batch_mode) == (
        False,
        0.1,
        True,
        "complete_episodes",
    )
    assert (config.explore, config.gamma) == (True, 0.99)


def test_a_general_configuration_is_of_the_algorithm_that_it_names(session: None) -> None:
    algorithm = (
        AlgorithmConfig(algo_class=PPO)
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(lr=0.25, train_batch_size=200, minibatch_size=50)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .build_algo()
    )
    assert type(algorithm) is PPO and type(algorithm.config) is PPOConfig
    assert (algorithm.config.lr, algorithm.config.minibatch_size) == (0.25, 50)
    algorithm.stop()


def test_policies_may_be_tuples_of_four() -> None:
    config = small().multi_agent(
        policies={"p": (None, None, None, AlgorithmConfig.overrides(lr=0.5)), "q": (None, None, None, {})},
        policy_mapping_fn=lambda agent_id, episode, **kwargs: "p",
    )
    config.freeze()
    assert set(config.policies) == {"p", "q"}
