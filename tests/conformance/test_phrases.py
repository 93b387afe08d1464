"""Messages that programs match: phrases of options, placement groups, strategies and environments."""

from __future__ import annotations

import pytest
import ray
from ray import exceptions
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig
from ray.util import get_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

NOBODY = "ab" * 28


@ray.remote
def task(a=1, *, b=2):
    return a


@ray.remote
class Actor:
    pass


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("num_cpus", -1, ValueError, "The quantity of resource num_cpus cannot be negative"),
        ("num_cpus", "x", TypeError, "The type of keyword 'num_cpus' must be"),
        (
            "num_cpus",
            0.00001,
            ValueError,
            "The precision of the fractional quantity of resource num_cpus cannot go",
        ),
        ("num_gpus", -1, ValueError, "The quantity of resource num_gpus cannot be negative"),
        ("num_gpus", 1.5, ValueError, "GPU resource quantities >1 must"),
        ("memory", -1, ValueError, "The quantity of resource memory cannot be negative"),
        ("memory", "x", TypeError, "The type of keyword 'memory' must be"),
        (
            "resources",
            {"CPU": 1},
            ValueError,
            "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU'",
        ),
        (
            "resources",
            {"GPU": 1},
            ValueError,
            "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU'",
        ),
        (
            "resources",
            {"memory": 1},
            ValueError,
            "The resources dictionary must not contain the key 'memory' or",
        ),
        (
            "resources",
            {"object_store_memory": 1},
            ValueError,
            "The resources dictionary must not contain the key",
        ),
        ("resources", 1, TypeError, "The type of keyword 'resources' must be"),
        (
            "num_returns",
            -1,
            ValueError,
            "The keyword 'num_returns' only accepts None, a non-negative integer",
        ),
        ("num_returns", 1.5, TypeError, "The type of keyword 'num_returns' must be"),
        (
            "max_retries",
            -2,
            ValueError,
            "The keyword 'max_retries' only accepts None, 0, -1 or a positive integer",
        ),
        ("max_retries", "x", TypeError, "The type of keyword 'max_retries' must be"),
        ("max_retries", 1.5, TypeError, "The type of keyword 'max_retries' must be"),
        ("retry_exceptions", 1, TypeError, "The type of keyword 'retry_exceptions' must be"),
        (
            "retry_exceptions",
            [1],
            ValueError,
            "retry_exceptions must be either a boolean or a list of exceptions",
        ),
        ("retry_exceptions", ValueError, TypeError, "The type of keyword 'retry_exceptions' must be"),
        ("retry_exceptions", None, TypeError, "The type of keyword 'retry_exceptions' must be"),
        ("max_calls", 1, ValueError, r"Setting 'max_calls' is not supported in '\.options\(\)'"),
        ("runtime_env", 1, TypeError, "The type of keyword 'runtime_env' must be"),
        ("name", 1, TypeError, "The type of keyword 'name' must be"),
        ("scheduling_strategy", "x", ValueError, "Invalid scheduling_strategy value x"),
        ("scheduling_strategy", 1, TypeError, "The type of keyword 'scheduling_strategy' must be"),
        ("label_selector", "x", TypeError, "The type of keyword 'label_selector' must be"),
        ("label_selector", {"a": "in(a"}, ValueError, "Invalid label selector value `in"),
        ("accelerator_type", 1, TypeError, "The type of keyword 'accelerator_type' must be"),
        ("enable_task_events", 1, TypeError, "The type of keyword 'enable_task_events' must be"),
        ("_labels", 1, TypeError, "The type of keyword '_labels' must be"),
        ("_metadata", {}, ValueError, "Invalid option keyword _metadata for remote functions"),
        ("max_restarts", 1, ValueError, "Invalid option keyword max_restarts for remote functions"),
        ("max_concurrency", 1, ValueError, "Invalid option keyword max_concurrency for remote functions"),
        ("foo", 1, ValueError, "Invalid option keyword foo for remote functions"),
        ("placement_group", 1, TypeError, "The type of keyword 'placement_group' must be"),
        (
            "placement_group_bundle_index",
            "x",
            TypeError,
            "The type of keyword 'placement_group_bundle_index' must be",
        ),
        ("object_store_memory", 1, ValueError, "Setting 'object_store_memory' is not implemented for tasks"),
        ("fallback_strategy", 1, TypeError, "The type of keyword 'fallback_strategy' must be"),
    ],
)
def test_option_of_a_task_is_refused_by_this_phrase(name, value, error, text):
    with pytest.raises(error, match=text):
        task.options(**{name: value}).remote()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_cpus", None), ("num_cpus", 0), ("num_cpus", 0.5), ("num_gpus", None), ("num_gpus", 0), ("memory", None),
        ("memory", 0), ("memory", 1.5), ("resources", None), ("resources", {}), ("num_returns", None), ("num_returns", 1),
        ("max_retries", 0), ("max_retries", -1), ("retry_exceptions", True), ("retry_exceptions", []),
        ("retry_exceptions", (ValueError,)), ("runtime_env", None), ("runtime_env", {}), ("name", None), ("name", "n"),
        ("scheduling_strategy", None), ("scheduling_strategy", "SPREAD"), ("scheduling_strategy", "DEFAULT"),
        ("label_selector", None), ("label_selector", {}), ("enable_task_events", False), ("_labels", {"a": "b"}),
        ("placement_group", None), ("placement_group", "default"), ("accelerator_type", None),
        ("fallback_strategy", None), ("_generator_backpressure_num_objects", 1),
    ],
)  # fmt: skip
def test_option_of_a_task_is_taken(name, value):
    assert ray.get(task.options(**{name: value}).remote(7)) == 7


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1, 2), {}, "too many|takes"),
        ((), {"c": 1}, "unexpected keyword|takes no argument"),
        ((1,), {"a": 1}, "a"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(args, kwargs, text):
    with pytest.raises(TypeError, match=text):
        task.remote(*args, **kwargs)


def test_missing_argument_is_named():
    @ray.remote
    def wants(a, b):
        return a

    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        wants.remote(1)


def test_direct_call_is_refused_by_this_phrase():
    with pytest.raises(TypeError, match="Remote functions cannot be called directly"):
        task()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([],), "Bundles must be a non-empty list of resource dictionaries"),
        (([{}],), "Bundles cannot be an empty dictionary or resources with only 0 values"),
        (([{"CPU": 0}],), "Bundles cannot be an empty dictionary or resources with only 0 values"),
        (({"CPU": 1},), "Placement group bundles must be a list"),
        (("x",), "Placement group bundles must be a list"),
        (([1],), "Bundles must be a non-empty list of resource dictionaries"),
        (([{"CPU": "x"}],), "Bundles must be a non-empty list of resource dictionaries"),
        (([{"CPU": 1}], "X"), "Invalid placement group strategy X. Supported strategies are"),
        (
            ([{"CPU": 1}], "PACK", "", "x"),
            "Placement group `lifetime` argument must be either `None` or 'detached'",
        ),
        (
            ([{"CPU": 1}], "PACK", "", None, NOBODY),
            "_soft_target_node_id currently only works with STRICT_PACK but got PACK",
        ),
        (
            ([{"CPU": 1}], "PACK", "", None, None, []),
            "The length of `bundle_label_selector` should equal the length",
        ),
    ],
)
def test_placement_group_is_refused_by_this_phrase(arguments, text):
    with pytest.raises(ValueError, match=text):
        placement_group(*arguments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nope", "Failed to look up placement group with name: nope"),
        ("", "Please supply a non-empty value to get_placement_group"),
    ],
)
def test_group_that_is_not_found_is_told_by_this_phrase(name, text):
    with pytest.raises(ValueError, match=text):
        get_placement_group(name)


@pytest.fixture
def group():
    made = placement_group([{"CPU": 1}])
    ray.get(made.ready())
    yield made
    remove_placement_group(made)


@pytest.mark.parametrize("index", [2, 5, -2])
def test_bundle_index_is_refused_by_this_phrase(group, index):
    with pytest.raises(ValueError, match=f"placement group bundle index {index} is invalid"):
        task.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()


def test_request_that_fits_no_bundle_is_refused_by_this_phrase(group):
    strategy = PlacementGroupSchedulingStrategy(group)
    for options in ({"num_cpus": 4}, {"resources": {"r": 1}}):
        with pytest.raises(ValueError, match="Cannot schedule task with the placement group"):
            task.options(scheduling_strategy=strategy, **options).remote()


def test_group_said_twice_is_refused_by_this_phrase(group):
    strategy = PlacementGroupSchedulingStrategy(group)
    with pytest.raises(
        ValueError, match="Placement groups should be specified via the scheduling_strategy option"
    ):
        task.options(scheduling_strategy=strategy, placement_group=group).remote()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: NodeAffinitySchedulingStrategy("x", soft=False),
            "Invalid node_id 'x'. Node ID must be a valid hex string",
        ),
        (
            lambda: NodeAffinitySchedulingStrategy(NOBODY, soft=False, _spill_on_unavailable=True),
            "_spill_on_unavailable cannot be set when soft is False",
        ),
        (
            lambda: NodeAffinitySchedulingStrategy(NOBODY, soft=True, _fail_on_unavailable=True),
            "_fail_on_unavailable cannot be set when soft is True",
        ),
        (lambda: In(), "The variadic parameter of the In operator must be a non-empty tuple"),
        (lambda: NotIn(), "The variadic parameter of the NotIn operator must be a non-empty tuple"),
        (lambda: In(1), "Type of value in position 0 for the In operator must be str"),
        (lambda: NotIn("a", 2), "Type of value in position 1 for the NotIn operator must be str"),
        (lambda: NodeLabelSchedulingStrategy({}), "hard"),
        (lambda: NodeLabelSchedulingStrategy({"a": "b"}), "hard"),
        (lambda: NodeLabelSchedulingStrategy({1: Exists()}), "hard"),
    ],
)
def test_strategy_is_refused_by_this_phrase(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_unknown_node_is_told_by_this_phrase():
    strategy = NodeAffinitySchedulingStrategy(NOBODY, soft=False)
    with pytest.raises(exceptions.TaskUnschedulableError, match="The task is not schedulable"):
        ray.get(task.options(scheduling_strategy=strategy).remote())
    soft = NodeAffinitySchedulingStrategy(NOBODY, soft=True)
    assert ray.get(task.options(scheduling_strategy=soft).remote(3)) == 3


# ---------------------------------------------------------------- runtime environments


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"pip": ["a"], "conda": "b"}, ValueError, "cannot be specified at the same time"),
        ({"pip": ["a"], "uv": ["b"]}, ValueError, "cannot be specified at the same time"),
        ({"env_vars": {"a": 1}}, TypeError, "env_vars"),
        ({"env_vars": 1}, TypeError, None),
        ({"working_dir": 1}, TypeError, "working_dir"),
        ({"working_dir": "/nope"}, ValueError, "/nope is not a valid path"),
        ({"py_modules": "x"}, TypeError, "py_modules"),
        ({"py_modules": [1]}, TypeError, "py_module"),
        ({"config": {"setup_timeout_seconds": -2}}, ValueError, "setup_timeout_seconds"),
        ({"config": 1}, TypeError, r"runtime_env\['config'\] must be"),
        ({"pip": 1}, TypeError, r"runtime_env\['pip'\] must be"),
        ({"uv": 1}, TypeError, r"runtime_env\['uv'\] must be"),
        ({"conda": 1}, TypeError, r"runtime_env\['conda'\] must be"),
        ({"excludes": "x"}, TypeError, r"runtime_env\['excludes'\] must be"),
        (
            {"pip": {"packages": ["a"], "pip_check": 1}},
            TypeError,
            r"runtime_env\['pip'\]\['pip_check'\] must be",
        ),
        ({"uv": {"packages": ["a"], "nope": 1}}, ValueError, r"runtime_env\['uv'\]"),
        ({"working_dir": "s3://b/x"}, ValueError, r"\.zip"),
    ],
)
def test_environment_is_refused_by_this_phrase(fields, error, text):
    with pytest.raises(error, match=text):
        RuntimeEnv(**fields)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"setup_timeout_seconds": "x"}, TypeError), ({"setup_timeout_seconds": 0}, ValueError), ({"eager_install": 1}, TypeError)],
)  # fmt: skip
def test_config_of_an_environment_is_refused(arguments, error):
    with pytest.raises(error):
        RuntimeEnvConfig(**arguments)


def test_config_of_an_environment_has_these_defaults():
    whole = {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}
    assert RuntimeEnvConfig() == RuntimeEnvConfig.default_config() == RuntimeEnvConfig().to_dict() == whole
    assert RuntimeEnv(config={"setup_timeout_seconds": 10})["config"]["setup_timeout_seconds"] == 10


def test_environment_answers_for_its_fields():
    env = RuntimeEnv(env_vars={"A": "1"}, pip=["x"])
    assert (env.env_vars(), env.has_pip(), env.has_conda(), env.has_uv()) == ({"A": "1"}, True, False, False)
    assert (env.plugins(), env.plugin_uris(), env.py_modules_uris(), env.working_dir_uri()) == (
        [],
        [],
        [],
        None,
    )
    assert (env.py_container_worker_path(), env.py_container_run_options()) == (None, None)
    assert RuntimeEnv.deserialize(env.serialize()) == env
    assert "_ray_commit" in RuntimeEnv.extensions_fields
    with pytest.raises(ValueError, match="Extension key must be one of"):
        env.get_extension("x")
