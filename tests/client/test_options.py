"""Options: accepted and rejected values, and the resources that they request."""

import fractions
import inspect
import warnings

import pytest

from skate.client.task import options as opt
from skate.core.resource.resources import UNIT


class PlacementGroup:
    """A substitute for a placement group, which options recognize by the name of its class."""


class PlacementGroupSchedulingStrategy:
    def __init__(self, group, index=-1, capture=None):
        self.placement_group = group
        self.placement_group_bundle_index = index
        self.placement_group_capture_child_tasks = capture


class NodeAffinitySchedulingStrategy:
    pass


class IndexOnly:
    """A number like NumPy's integers: it has ``__index__`` and ``__float__``, but is not an int."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)


def task(**given):
    return opt.task_options(given, decorator=True)


def actor(**given):
    return opt.actor_options(given, decorator=True)


def method(**given):
    return opt.method_options(given, decorator=True)


# ---------------------------------------------------------------- accepted

GOOD_FOR_BOTH = {
    "num_cpus": [None, 0, 0.5, 4, 0.0001],
    "num_gpus": [None, 0, 0.25, 2, 1.5],
    "resources": [None, {}, {"x": 1, "y": 0.5, "z": 0}],
    "memory": [None, 0, 10**9],
    "accelerator_type": [None, "A100"],
    "label_selector": [None, {"zone": "in(a, b)", "ray.io/accelerator-type": "!T4", "x": "!in(a)", "y": ""}],
    "fallback_strategy": [None, [{"label_selector": {"zone": "a"}}]],
    "scheduling_strategy": [None, "DEFAULT", "SPREAD"],
    "runtime_env": [None, {}, {"pip": ["x"]}],
    "name": [None, "n"],
    "enable_task_events": [True, False],
    "placement_group": ["default"],
    "placement_group_bundle_index": [-1],
    "placement_group_capture_child_tasks": [None, False],
    "_labels": [None, {"a": "b"}],
}
GOOD_FOR_TASKS = {
    "num_returns": [None, 0, 1, 5, "streaming"],
    "max_retries": [None, -1, 0, 3],
    "retry_exceptions": [True, False],
    "max_calls": [None, 0, 3],
    "_generator_backpressure_num_objects": [None, -1, 1],
    "_num_objects_per_yield": [None, 1],
    "object_store_memory": [None],
}
GOOD_FOR_ACTORS = {
    "max_restarts": [None, -1, 0, 3],
    "max_task_retries": [None, -1, 0, 3],
    "max_concurrency": [None, 1, 50],
    "concurrency_groups": [None, {"io": 2}],
    "lifetime": [None, "detached", "non_detached"],
    "namespace": [None, "space"],
    "get_if_exists": [False],
    "max_pending_calls": [None, -1, 0, 5],
    "allow_out_of_order_execution": [None, True, False],
    "enable_tensor_transport": [None, True, False],
    "_actor_generator_backpressure_num_objects": [None, -1, 5],
}
GOOD_FOR_METHODS = {
    "num_returns": [None, 0, 2, "streaming"],
    "concurrency_group": [None, "io"],
    "max_task_retries": [None, -1, 2],
    "retry_exceptions": [True, False],
    "_generator_backpressure_num_objects": [None, 1],
    "_num_objects_per_yield": [None, 1],
    "enable_task_events": [True, False],
    "tensor_transport": [None, "NCCL"],
}


def cases(table):
    return [pytest.param(name, value, id=f"{name}={value!r}") for name in table for value in table[name]]


@pytest.mark.parametrize(("name", "value"), cases({**GOOD_FOR_BOTH, **GOOD_FOR_TASKS}))
def test_good_task_options_are_kept_as_given(name, value):
    assert task(**{name: value}) == {name: value}


@pytest.mark.parametrize(("name", "value"), cases({**GOOD_FOR_BOTH, **GOOD_FOR_ACTORS}))
def test_good_actor_options_are_kept_as_given(name, value):
    assert actor(**{name: value}) == {name: value}


@pytest.mark.parametrize(("name", "value"), cases(GOOD_FOR_METHODS))
def test_good_method_options_are_kept_as_given(name, value):
    assert method(**{name: value}) == {name: value}


def test_the_tables_above_name_every_option():
    assert set(opt.TASK_OPTIONS) == {*GOOD_FOR_BOTH, *GOOD_FOR_TASKS}
    assert set(opt.ACTOR_OPTIONS) == {*GOOD_FOR_BOTH, *GOOD_FOR_ACTORS, "object_store_memory"}
    assert set(opt.METHOD_OPTIONS) == set(GOOD_FOR_METHODS)


def test_numbers_of_other_types_become_plain_ones():
    kept = task(
        num_cpus=IndexOnly(2), num_gpus=fractions.Fraction(1, 2), max_retries=IndexOnly(4), memory=1e9
    )
    assert kept == {"num_cpus": 2, "num_gpus": 0.5, "max_retries": 4, "memory": 10**9}
    assert [type(value) for value in kept.values()] == [int, float, int, int]


def test_exception_lists_become_tuples():
    assert task(retry_exceptions=[ValueError, OSError]) == {"retry_exceptions": (ValueError, OSError)}


def test_the_older_spelling_of_concurrency_groups():
    groups = [{"name": "io", "max_concurrency": 2, "methods": []}]
    assert actor(concurrency_groups=groups) == {"concurrency_groups": {"io": 2}}


def test_what_the_caller_changes_later_does_not_change_the_options():
    given = {"x": 1}
    kept = task(resources=given)
    given["x"] = 2
    assert kept == {"resources": {"x": 1}}


def test_strategy_objects_are_known_by_their_class():
    for strategy in (NodeAffinitySchedulingStrategy(), PlacementGroupSchedulingStrategy(None)):
        assert task(scheduling_strategy=strategy)["scheduling_strategy"] is strategy


# ---------------------------------------------------------------- refused

WRONG_TYPE = [
    ("num_cpus", "two"),
    ("num_gpus", []),
    ("memory", "1GB"),
    ("resources", [1]),
    ("resources", {"x": "y"}),
    ("resources", {"x": None}),
    ("resources", {5: 1}),
    ("accelerator_type", 5),
    ("label_selector", "a"),
    ("label_selector", {"a": 5}),
    ("fallback_strategy", {}),
    ("scheduling_strategy", 5),
    ("placement_group", 5),
    ("runtime_env", "x"),
    ("name", 5),
    ("enable_task_events", None),
    ("enable_task_events", 1),
]
WRONG_VALUE = [
    ("num_cpus", -1),
    ("num_cpus", 0.00001),
    ("num_gpus", float("nan")),
    ("memory", -1),
    ("resources", {"CPU": 1}),
    ("resources", {"GPU": 1}),
    ("resources", {"memory": 1}),
    ("resources", {"x": -1}),
    ("resources", {"": 1}),
    ("label_selector", {"a": "in(a,b"}),
    ("label_selector", {"a b": "c"}),
    ("fallback_strategy", [{"labels": {}}]),
    ("fallback_strategy", [5]),
    ("scheduling_strategy", "FOO"),
    ("placement_group", "FOO"),
    ("placement_group_bundle_index", -2),
]


@pytest.mark.parametrize("check", [task, actor])
@pytest.mark.parametrize(("name", "value"), WRONG_TYPE)
def test_a_wrong_type_is_a_type_error_that_names_the_option(check, name, value):
    with pytest.raises(TypeError, match=name):
        check(**{name: value})


@pytest.mark.parametrize("check", [task, actor])
@pytest.mark.parametrize(("name", "value"), WRONG_VALUE)
def test_a_wrong_value_is_a_value_error_that_names_the_option(check, name, value):
    with pytest.raises(ValueError, match=name):
        check(**{name: value})


@pytest.mark.parametrize(
    ("check", "name", "value", "error"),
    [
        (task, "num_returns", -1, ValueError),
        (task, "num_returns", "foo", ValueError),
        (task, "num_returns", 1.5, TypeError),
        (task, "max_retries", -2, ValueError),
        (task, "max_retries", "a", TypeError),
        (task, "retry_exceptions", 5, TypeError),
        (task, "retry_exceptions", None, TypeError),
        (task, "retry_exceptions", [5], ValueError),
        (task, "retry_exceptions", [int], ValueError),
        (task, "max_calls", -1, ValueError),
        (task, "_generator_backpressure_num_objects", 0, ValueError),
        (task, "_num_objects_per_yield", 0, ValueError),
        (task, "object_store_memory", 5, ValueError),
        (actor, "max_restarts", "a", TypeError),
        (actor, "max_restarts", -2, ValueError),
        (actor, "max_concurrency", 0, ValueError),
        (actor, "max_concurrency", -1, ValueError),
        (actor, "concurrency_groups", {"io": 0}, ValueError),
        (actor, "concurrency_groups", {"io": None}, TypeError),
        (actor, "concurrency_groups", {5: 1}, TypeError),
        (actor, "concurrency_groups", ["io"], ValueError),
        (actor, "concurrency_groups", "io", TypeError),
        (actor, "lifetime", "forever", ValueError),
        (actor, "lifetime", 5, TypeError),
        (actor, "name", "", ValueError),
        (actor, "namespace", "", ValueError),
        (actor, "get_if_exists", None, TypeError),
        (actor, "allow_out_of_order_execution", 1, TypeError),
        (actor, "_actor_generator_backpressure_num_objects", 0, ValueError),
        (method, "concurrency_group", 5, TypeError),
        (method, "num_returns", -1, ValueError),
    ],
)
def test_what_one_kind_alone_refuses(check, name, value, error):
    with pytest.raises(error, match=name):
        check(**{name: value})


def test_an_unknown_option_is_told_its_neighbour_and_the_list():
    with pytest.raises(
        ValueError, match=r"'num_gpu' is not an option of a task; did you mean 'num_gpus'\?"
    ) as e:
        task(num_gpu=1)
    assert "max_retries" in str(e.value)
    assert "_labels" not in str(e.value)


def test_an_option_of_the_other_kind_says_so():
    with pytest.raises(
        ValueError, match=r"'max_restarts' is not an option of a task \(it is one of actors\)"
    ):
        task(max_restarts=1)
    with pytest.raises(
        ValueError, match=r"'max_retries' is not an option of an actor \(it is one of tasks\)"
    ):
        actor(max_retries=1)


def test_an_unknown_option_of_a_method_is_an_assertion_error_too_in_the_decorator_only():
    with pytest.raises(AssertionError, match="'foo'"):
        method(foo=1)
    with pytest.raises(ValueError, match="'foo'"):
        method(foo=1)
    with pytest.raises(ValueError, match="'foo'") as error:
        opt.method_options({"foo": 1}, decorator=False)
    assert not isinstance(error.value, AssertionError)


def test_a_method_call_may_have_a_name_but_its_decorator_not():
    assert opt.method_options({"name": "n"}, decorator=False) == {"name": "n"}
    with pytest.raises(ValueError, match="'name'"):
        method(name="n")


def test_options_that_only_the_decorator_takes():
    with pytest.raises(ValueError, match="max_calls"):
        opt.task_options({"max_calls": 1}, decorator=False)
    with pytest.raises(ValueError, match="concurrency_groups"):
        opt.actor_options({"concurrency_groups": {"io": 1}}, decorator=False)


def test_get_if_exists_needs_a_name_from_either_place():
    with pytest.raises(ValueError, match="The actor name must be specified to use"):
        actor(get_if_exists=True)
    over = opt.actor_options({"get_if_exists": True}, decorator=False, base={"name": "n"})
    assert over == {"name": "n", "get_if_exists": True}


def test_streaming_needs_a_generator():
    for check in (opt.task_options, opt.method_options):
        with pytest.raises(ValueError, match="generator"):
            check({"num_returns": "streaming"}, decorator=False, generator=False)
        assert check({"num_returns": "streaming"}, decorator=False, generator=True)


def test_the_usage_of_remote_lists_the_options():
    text = opt.remote_usage()
    assert "num_returns" in text
    assert "max_restarts" in text


# ---------------------------------------------------------------- deprecated


def test_dynamic_returns_warn():
    with pytest.warns(DeprecationWarning, match="streaming"):
        assert task(num_returns="dynamic") == {"num_returns": "dynamic"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("placement_group", PlacementGroup()),
        ("placement_group", None),
        ("placement_group_bundle_index", 0),
        ("placement_group_capture_child_tasks", True),
    ],
)
def test_the_older_placement_spelling_warns_at_the_callers_line(name, value):
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated") as caught:
        line = inspect.currentframe().f_lineno + 1
        opt.task_options({name: value}, decorator=True)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_two_places_to_run_are_refused():
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="both determine where"):
        task(placement_group=PlacementGroup(), scheduling_strategy="SPREAD")


def test_store_memory_of_an_actor_is_accepted_with_a_warning():
    with pytest.warns(DeprecationWarning, match="reserves nothing"):
        assert actor(object_store_memory=5) == {"object_store_memory": 5}


def test_placement_of_reads_both_spellings():
    group = PlacementGroup()
    strategy = PlacementGroupSchedulingStrategy(group, 1, True)
    assert opt.placement_of(task(scheduling_strategy=strategy)) == (group, 1, True)
    assert opt.placement_of({}) is None
    assert opt.placement_of(task(scheduling_strategy="SPREAD")) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old = task(placement_group=group, placement_group_bundle_index=2)
        none = task(placement_group=None)
    assert opt.placement_of(old) == (group, 2, None)
    assert opt.placement_of(none) == (None, -1, None)


# ---------------------------------------------------------------- merging


def test_options_of_a_call_go_over_the_decorators():
    base = task(num_cpus=2, max_calls=5)
    merged = opt.task_options({"num_cpus": None, "name": "n"}, decorator=False, base=base)
    assert merged == {"num_cpus": None, "max_calls": 5, "name": "n"}
    assert base == {"num_cpus": 2, "max_calls": 5}
    assert opt.resource_request(merged, kind="task") == {"CPU": UNIT}


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("given", "for_task", "for_actor", "to_place"),
    [
        ({}, {"CPU": 1}, {}, {"CPU": 1}),
        ({"num_cpus": 0}, {}, {}, {}),
        ({"num_cpus": 2}, {"CPU": 2}, {"CPU": 2}, {"CPU": 2}),
        ({"num_gpus": 1}, {"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}),
        ({"num_gpus": 0.5, "num_cpus": 0}, {"GPU": 0.5}, {"GPU": 0.5}, {"GPU": 0.5}),
        ({"resources": {"x": 1}}, {"CPU": 1, "x": 1}, {"CPU": 1, "x": 1}, {"CPU": 1, "x": 1}),
        ({"memory": 5}, {"CPU": 1, "memory": 5}, {"memory": 5}, {"CPU": 1, "memory": 5}),
        ({"resources": {}}, {"CPU": 1}, {}, {"CPU": 1}),
    ],
)
def test_what_options_ask_for(given, for_task, for_actor, to_place):
    def in_units(request):
        return {name: int(amount * UNIT) for name, amount in request.items()}

    assert opt.resource_request(task(**given), kind="task") == in_units(for_task)
    assert opt.resource_request(actor(**given), kind="actor") == in_units(for_actor)
    assert opt.placement_request(actor(**given)) == in_units(to_place)


def test_an_accelerator_type_is_a_tiny_custom_resource():
    request = opt.resource_request(task(accelerator_type="A100"), kind="task")
    assert request == {"CPU": UNIT, "accelerator_type:A100": 10}


def test_gpus_above_one_must_be_whole_when_they_are_asked_for():
    options = task(num_gpus=1.5)
    with pytest.raises(ValueError, match=r"num_gpus=1\.5: .* request 1 or 2"):
        opt.resource_request(options, kind="task")
    assert opt.resource_request(task(num_gpus=3.0), kind="task")["GPU"] == 3 * UNIT
