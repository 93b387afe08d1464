"""Mistakes with tasks, options and the driver's calls: rejected early, with helpful messages."""

from __future__ import annotations

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def work():
    return "ran"


class Idle:
    pass


TASK_OPTIONS_REFUSED = {
    "negative-cpus": ({"num_cpus": -1}, ValueError),
    "cpus-as-text": ({"num_cpus": "two"}, TypeError),
    "negative-gpus": ({"num_gpus": -1}, ValueError),
    "gpus-as-text": ({"num_gpus": "one"}, TypeError),
    "negative-memory": ({"memory": -1}, ValueError),
    "memory-as-text": ({"memory": "1GB"}, TypeError),
    "resources-as-list": ({"resources": ["a"]}, TypeError),
    "cpu-among-resources": ({"resources": {"CPU": 1}}, ValueError),
    "gpu-among-resources": ({"resources": {"GPU": 1}}, ValueError),
    "negative-num-returns": ({"num_returns": -1}, ValueError),
    "num-returns-as-unknown-word": ({"num_returns": "many"}, (TypeError, ValueError)),
    "num-returns-as-float": ({"num_returns": 1.5}, TypeError),
    "retries-below-minus-one": ({"max_retries": -2}, ValueError),
    "retries-as-text": ({"max_retries": "3"}, TypeError),
    "negative-max-calls": ({"max_calls": -1}, ValueError),
    "retry-exceptions-as-text": ({"retry_exceptions": "ValueError"}, TypeError),
    "runtime-env-as-text": ({"runtime_env": "env"}, TypeError),
    "runtime-env-as-list": ({"runtime_env": ["pip"]}, TypeError),
    "name-as-number": ({"name": 5}, TypeError),
    "strategy-as-number": ({"scheduling_strategy": 5}, TypeError),
    "accelerator-as-number": ({"accelerator_type": 5}, TypeError),
    "label-selector-as-text": ({"label_selector": "a=b"}, TypeError),
    "backpressure-of-zero": ({"_generator_backpressure_num_objects": 0}, ValueError),
    "unknown-option": ({"num_cpu": 1}, ValueError),
    "option-of-actors": ({"max_restarts": 1}, ValueError),
    "another-option-of-actors": ({"max_concurrency": 2}, ValueError),
}


@pytest.mark.parametrize(("options", "error"), TASK_OPTIONS_REFUSED.values(), ids=TASK_OPTIONS_REFUSED.keys())
def test_bad_task_option_is_refused_by_the_decorator(options, error):
    with pytest.raises(error):

        @ray.remote(**options)
        def task():
            pass


# Quantities are tried with .options() in test_resources.py; max_calls goes in the decorator only.
QUANTITIES = {"num_cpus", "num_gpus", "memory", "resources", "max_calls"}
OTHERS_REFUSED = {name: pair for name, pair in TASK_OPTIONS_REFUSED.items() if not QUANTITIES & set(pair[0])}


@pytest.mark.parametrize(("options", "error"), OTHERS_REFUSED.values(), ids=OTHERS_REFUSED.keys())
def test_bad_task_option_is_refused_by_options(options, error):
    with pytest.raises(error):
        work.options(**options)


@pytest.mark.parametrize("option", [{"num_cpus": -1}, {"num_cpu": 1}, {"resources": {"CPU": 1}}])
def test_refused_option_is_named(option):
    (name,) = option
    with pytest.raises(ValueError, match="CPU" if name == "resources" else name):
        work.options(**option)


@pytest.mark.chosen_difference("Ray lists all options and suggests none", id="D-messages")
@pytest.mark.parametrize(
    ("typo", "meant"), [("num_cpu", "num_cpus"), ("max_retry", "max_retries"), ("runtimeenv", "runtime_env")]
)
def test_unknown_option_suggests_the_nearest(typo, meant):
    with pytest.raises(ValueError, match=rf"(?i)did you mean.*{meant}"):
        work.options(**{typo: 1})


def test_negative_concurrency_of_an_actor_is_refused_at_the_latest_when_it_is_made():
    with pytest.raises(ValueError):
        ray.remote(Idle).options(max_concurrency=-1).remote()


@pytest.mark.chosen_difference("Ray silently accepts zero", id="D-early-refusal")
def test_zero_concurrency_of_an_actor_is_refused_at_the_latest_when_it_is_made():
    with pytest.raises(ValueError, match="max_concurrency"):
        ray.remote(Idle).options(max_concurrency=0).remote()


@pytest.mark.parametrize(
    ("runtime_env", "error"),
    [
        ({"env_vars": {"A": 1}}, TypeError),
        ({"env_vars": {1: "a"}}, TypeError),
        ({"env_vars": "A=1"}, TypeError),
        ({"pip": 5}, TypeError),
        ({"working_dir": "/there/is/no/such/folder"}, ValueError),
        ({"working_dir": 5}, TypeError),
        ({"py_modules": "not-a-list"}, TypeError),
        ({"pip": ["a"], "conda": "b"}, ValueError),
    ],
    ids=[
        "value-of-env-var-is-number",
        "name-of-env-var-is-number",
        "env-vars-as-text",
        "pip-as-number",
        "missing-working-dir",
        "working-dir-as-number",
        "py-modules-as-text",
        "pip-and-conda",
    ],
)
def test_rte_1_bad_runtime_env_is_refused_at_submit(runtime_env, error):
    with pytest.raises(error):
        work.options(runtime_env=runtime_env).remote()


@pytest.mark.chosen_difference("Ray silently ignores the key", id="D-runtime-env-keys")
def test_rte_2_unknown_runtime_env_key_is_refused_and_the_nearest_named():
    with pytest.raises(ValueError, match="env_vars"):
        work.options(runtime_env={"envvars": {"A": "1"}}).remote()


def test_remote_on_an_already_remote_function_is_refused():
    with pytest.raises((AssertionError, TypeError)):
        ray.remote(work)


def test_options_of_a_function_need_names():
    with pytest.raises(TypeError):
        work.options(1)


def test_decorator_with_positional_number_is_refused():
    with pytest.raises((AssertionError, TypeError)):

        @ray.remote(2)
        def task():
            pass


def test_ref_is_no_iterable():
    with pytest.raises(TypeError):
        list(ray.put([1, 2]))


def test_ref_cannot_be_added_to():
    with pytest.raises(TypeError):
        ray.put(1) + 1


def test_ref_has_no_length():
    with pytest.raises(TypeError):
        len(ray.put([1]))
