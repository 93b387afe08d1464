"""The configuration: Ray's fields, methods and defaults, and errors for what is wrong."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skate import cloudpickle
from skate.rllib.algorithms import DQNConfig, PPOConfig, SACConfig, registry
from skate.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from skate.rllib.env.multi_agent_env import make_multi_agent
from skate.rllib.policy.policy import PolicySpec

#: Fields, methods and defaults of Ray 2.60, made from it once; objects of classes by the name of their class.
TABLE = json.loads((Path(__file__).parent / "config_of_ray.json").read_text())
CLASSES = {each.__name__: each for each in (AlgorithmConfig, PPOConfig, DQNConfig, SACConfig)}


def plain(value: Any) -> Any:
    """Return a value with tuples as lists, as JSON has it."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_of_ray_has_its_default(name: str) -> None:
    config = CLASSES[name]()
    expected = {**TABLE["AlgorithmConfig"]["fields"], **TABLE[name]["fields"]}
    objects = {
        field for field, value in expected.items() if isinstance(value, dict) and list(value) == ["type"]
    }
    objects -= {"_prior_exploration_config"}
    found = {field: plain(vars(config)[field]) for field in expected if field not in objects}
    assert found == {field: value for field, value in expected.items() if field not in objects}
    assert objects <= vars(config).keys()
    assert vars(config).keys() - expected.keys() == {"model"}  # Ray's has sixty keys of the old stack


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_takes_the_arguments_of_ray(name: str) -> None:
    for method, expected in TABLE[name]["methods"].items():
        parameters = inspect.signature(getattr(CLASSES[name], method)).parameters
        missing = set(expected) - parameters.keys()
        assert not missing, f"{name}.{method} does not take {missing}"


def test_methods_set_fields_and_return_the_configuration() -> None:
    config = PPOConfig()
    assert config.training(lr=1e-3, gamma=0.9, clip_param=0.1) is config
    assert (config.lr, config["gamma"], config.get("clip_param")) == (1e-3, 0.9, 0.1)
    config.environment("CartPole-v1", env_config={"a": 1}).environment(env_config={"b": 2})
    assert (config.env, config.env_config) == ("CartPole-v1", {"a": 1, "b": 2})
    config["lr"] = 5
    assert config.lr == 5
    assert "lr" in config
    assert "no_such_field" not in config
    config.env_runners(num_env_runners=NotProvided)
    assert config.num_env_runners == 2


def test_unknown_names_are_refused_with_the_nearest_one() -> None:
    config = PPOConfig()
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'minibatchsize'; did you mean 'minibatch_size'"
    ):
        config.training(minibatchsize=3)
    with pytest.raises(TypeError, match=r"belongs to \.env_runners\(num_env_runners=\.\.\.\)"):
        config.training(num_env_runners=3)
    with pytest.raises(ValueError, match=r"Use `AlgorithmConfig.env_runners\(num_env_runners\)` instead"):
        config.env_runners(num_rollout_workers=3)
    with pytest.raises(KeyError, match="no field 'clip_parm'; did you mean 'clip_param'"):
        config.update_from_dict({"clip_parm": 0.1})
    with pytest.raises(KeyError, match="Invalid property name foo for config class PPOConfig!"):
        PPOConfig.overrides(lr=1, foo=2)
    with pytest.raises(AttributeError, match="now called 'num_env_runners'"):
        config.num_rollout_workers  # noqa: B018
    with pytest.warns(DeprecationWarning, match="num_epochs"):
        assert config.training(num_sgd_iter=7).num_epochs == 7
    for refused, instead in (("rollouts", "env_runners"), ("exploration", "explore")):
        with pytest.raises(ValueError, match=instead):
            getattr(config, refused)(num_rollout_workers=2)


def test_copies_and_frozen_configurations() -> None:
    config = PPOConfig().training(lr=1).environment(env_config={"a": {"b": 1}})
    copied = config.copy()
    copied.env_config["a"]["b"] = 2
    copied.lr = 3
    assert (config.env_config, config.lr) == ({"a": {"b": 1}}, 1)
    config.freeze()
    with pytest.raises(AttributeError, match=r"Cannot set attribute \(lr\) of an already frozen"):
        config.lr = 2
    with pytest.raises(AttributeError, match="frozen"):
        config.copy().training(lr=2)
    assert config.copy(copy_frozen=False).training(lr=2).lr == 2
    assert copy.deepcopy(config).lr == 1
    restored = pickle.loads(cloudpickle.dumps(config))
    assert restored.to_dict() == config.to_dict()


def test_a_dict_and_back() -> None:
    config = PPOConfig().environment("CartPole-v1").training(lr=1).framework("torch")
    as_dict = config.to_dict()
    assert (as_dict["env"], as_dict["framework"], as_dict["input"]) == ("CartPole-v1", "torch", "sampler")
    assert not {"algo_class", "_is_frozen", "framework_str"} & as_dict.keys()
    assert PPOConfig.from_dict(as_dict).to_dict() == as_dict
    assert PPOConfig.overrides(lr=2) == {"lr": 2}
    assert json.dumps(config.serialize())


def test_a_configuration_of_a_user_has_fields_of_its_own() -> None:
    class MyConfig(PPOConfig):
        def __init__(self, algo_class: Any = None) -> None:
            super().__init__(algo_class)
            self.temperature = 1.0

        def training(self, *, temperature: Any = NotProvided, **kwargs: Any) -> MyConfig:
            super().training(**kwargs)
            if temperature is not NotProvided:
                self.temperature = temperature
            return self

    config = MyConfig().training(temperature=2.0, lr=1)
    assert (config.copy().temperature, config.lr, config.to_dict()["temperature"]) == (2.0, 1, 2.0)
    assert MyConfig.from_dict({"temperature": 3}).temperature == 3


def test_sizes_follow_from_the_fields() -> None:
    config = PPOConfig()
    assert (config.get_rollout_fragment_length(), config.total_train_batch_size) == (2000, 4000)
    config.env_runners(num_env_runners=3, num_envs_per_env_runner=2)
    assert [config.get_rollout_fragment_length(index) for index in (1, 2, 3)] == [667, 667, 666]
    config.training(train_batch_size_per_learner=100).learners(num_learners=2)
    assert (config.train_batch_size_per_learner, config.total_train_batch_size) == (100, 200)
    assert DQNConfig().training(n_step=(2, 5)).get_rollout_fragment_length() == 5
    config.env_runners(rollout_fragment_length=30)
    with pytest.raises(ValueError, match="rollout_fragment_length='auto'"):
        config.training(
            train_batch_size_per_learner=100
        ).validate_train_batch_size_vs_rollout_fragment_length()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.training(minibatch_size=5000), "must be <= `train_batch_size_per_learner`"),
        (lambda c: c.training(lr=[[1, 2], [3, 4]]), "Invalid `lr`"),
        (lambda c: c.training(entropy_coeff=-1.0), "must be >= 0.0"),
        (lambda c: c.training(gamma=2), "`gamma`"),
        (lambda c: c.env_runners(num_env_runners=-1), "`num_env_runners`"),
        (lambda c: c.env_runners(observation_filter="MeanStdFilter"), "MeanStdFilter"),
        (lambda c: c.evaluation(evaluation_interval=1, evaluation_duration=0), "must be an int and >0!"),
        (
            lambda c: c.evaluation(evaluation_interval=1, evaluation_parallel_to_training=True),
            "num_env_runners` > 0",
        ),
        (lambda c: c.evaluation(evaluation_duration="auto"), "not supported"),
        (lambda c: c.offline_data(input_="/tmp/x"), "learning from files is not available"),
        (lambda c: c.offline_data(output="/tmp/x"), "recording to files is not available"),
        (lambda c: c.resources(num_gpus=1), "num_gpus_per_learner"),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"p": {}}),
            "the modules are: 'default_policy'",
        ),
    ],
)
def test_validation_names_the_field(change: Any, message: str) -> None:
    config = PPOConfig().environment("CartPole-v1")
    config.validate()
    change(config)
    with pytest.raises(ValueError, match=message):
        config.validate()
    config.experimental(_validate_config=False).validate()


def test_wrong_values_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="truncate_episodes"):
        PPOConfig().env_runners(batch_mode="x")
    with pytest.raises(ValueError, match="global_norm"):
        PPOConfig().training(grad_clip_by="x")
    with pytest.raises(ValueError, match="subclass of RLlibCallback"):
        PPOConfig().callbacks(["x"])
    with pytest.raises(ValueError, match="tf2"):
        PPOConfig().framework("tf2")
    with pytest.raises(ValueError, match="lr=None"):
        SACConfig().training(lr=1e-3).validate()
    with pytest.raises(ValueError, match="has no algorithm"):
        AlgorithmConfig().build_algo()
    with pytest.warns(UserWarning, match="RLModules"):
        assert PPOConfig().api_stack(False, False).enable_rl_module_and_learner is True


def test_modules_of_several_agents() -> None:
    config = PPOConfig()
    assert not config.is_multi_agent
    config.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda agent, episode, **kw: "a")
    assert config.is_multi_agent
    assert config.policies == {"a": PolicySpec(), "b": PolicySpec()}
    config.rl_module(algorithm_config_overrides_per_module={"a": PPOConfig.overrides(lr=7)})
    assert config.get_config_for_module("a").lr == 7
    assert config.get_config_for_module("b") is config
    with pytest.raises(ValueError, match="string of one or more characters"):
        config.multi_agent(policies={""})
    with pytest.raises(ValueError, match="must be a PolicySpec or None"):
        config.multi_agent(policies={"a": 3})


def test_one_module_of_agents_that_are_all_alike() -> None:
    env = make_multi_agent("CartPole-v1")({"num_agents": 2})
    spec = PPOConfig().get_multi_rl_module_spec(env=env).rl_module_specs["default_policy"]
    assert spec.observation_space == env.observation_spaces[0] and spec.action_space.n == 2


def test_the_configuration_of_evaluation() -> None:
    config = PPOConfig().environment("CartPole-v1")
    assert config.get_evaluation_config_object() is None
    config.evaluation(
        evaluation_interval=1, evaluation_num_env_runners=3, evaluation_config={"explore": False}
    )
    found = config.get_evaluation_config_object()
    assert found is not None
    assert (found.explore, found.num_env_runners, found.in_evaluation, found.batch_mode) == (
        False,
        3,
        True,
        "complete_episodes",
    )
    assert config.explore


def test_settings_of_networks_are_merged() -> None:
    config = PPOConfig().rl_module(model_config={"fcnet_hiddens": [5]})
    assert config.model_config == {"vf_share_layers": False, "fcnet_hiddens": [5]}
    assert PPOConfig().training(model={"fcnet_hiddens": [5]}).model_config["fcnet_hiddens"] == [5]
    assert DQNConfig().training(double_q=False).model_config["double_q"] is False


@pytest.mark.parametrize("name", ["IMPALA", "APPO", "DreamerV3", "BC", "MARWIL", "CQL"])
def test_algorithms_that_are_not_available_are_refused_by_name(name: str) -> None:
    with pytest.raises(
        NotImplementedError, match=f"{name} is not available: Skate's RLlib has DQN, PPO, SAC"
    ):
        registry.get_algorithm_class(name)
    with pytest.raises(ImportError, match=f"{name} is not available"):
        exec(f"from skate.rllib.algorithms import {name}Config")


def test_a_configuration_is_written_without_torch_or_gymnasium() -> None:
    program = (
        "import sys; from skate.rllib.algorithms.ppo import PPOConfig; "
        "PPOConfig().environment('CartPole-v1').training(lr=1).validate(); "
        "sys.exit(sorted({'torch', 'gymnasium', 'distributed'} & sys.modules.keys()) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_parts_of_several_agents_are_not_set_as_an_item() -> None:
    with pytest.raises(AttributeError, match="Cannot set `multiagent` key in an AlgorithmConfig!"):
        PPOConfig()["multiagent"] = {"policies": {"a"}}
    with pytest.raises(ValueError, match=r"count_steps_by=\.\.\) must be one of .* got 'steps'"):
        PPOConfig().multi_agent(count_steps_by="steps")
