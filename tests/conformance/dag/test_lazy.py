"""Graphs that are bound and executed without compiling them: the descriptions of nodes, and the rewriting of graphs."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import ray
import ray.dag
from ray.dag import (
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
    ClassMethodNode,
    ClassNode,
    DAGInputData,
    DAGNode,
    FunctionNode,
    InputNode,
    MultiOutputNode,
)


@pytest.fixture(autouse=True)
def quiet(cluster: None) -> Iterator[None]:
    """Ray says of each `execute` that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@ray.remote(num_cpus=0, max_retries=1)
def one(*args: Any, **kwargs: Any) -> int:
    return 1


@ray.remote(num_cpus=0)
def same(value: Any) -> Any:
    return value


@ray.remote(num_cpus=0)
class Account:
    def __init__(self, balance: int = 0) -> None:
        self.balance = balance

    def pay(self, amount: int) -> None:
        self.balance += amount

    def get(self) -> int:
        return self.balance

    @ray.method(num_returns=2)
    def both(self) -> tuple[int, int]:
        return self.balance, -self.balance


# what a node says of itself


def test_arguments_of_a_node() -> None:
    inner = [one.bind() for _ in range(3)]
    node = one.bind(1, inner[0], x=inner[1], y={"deep": inner[2]})
    assert node.get_args() == (1, inner[0])
    assert node.get_kwargs() == {"x": inner[1], "y": {"deep": inner[2]}}
    assert node.get_other_args_to_resolve() == {}


def test_keyword_arguments_are_a_copy() -> None:
    node = one.bind(x=1)
    node.get_kwargs()["x"] = 2
    assert node.get_kwargs() == {"x": 1}


def test_options_of_a_task() -> None:
    assert one.bind().get_options()["max_retries"] == 1
    found = one.options(name="named", num_cpus=2).bind().get_options()
    assert {"name": "named", "num_cpus": 2, "max_retries": 1}.items() <= found.items()


def test_options_of_an_actor_and_of_a_method() -> None:
    actor = Account.options(name="of-a-graph", max_pending_calls=10).bind(1)
    assert {"name": "of-a-graph", "max_pending_calls": 10}.items() <= actor.get_options().items()
    assert actor.get.options(name="called").bind().get_options() == {"name": "called"}
    assert actor.get.bind().get_options() == {}


def test_a_uuid_stays_with_a_node() -> None:
    node = one.bind()
    assert node.get_stable_uuid() == node.get_stable_uuid() != one.bind().get_stable_uuid()
    int(node.get_stable_uuid(), 16)


def test_a_method_knows_its_actor_and_the_call_before() -> None:
    actor = Account.bind(1)
    first, second = actor.get.options(name="first").bind(), actor.get.bind()
    assert first.get_other_args_to_resolve()[PARENT_CLASS_NODE_KEY] is actor
    assert first.get_other_args_to_resolve()[PREV_CLASS_METHOD_CALL_KEY] is None
    assert second.get_other_args_to_resolve()[PREV_CLASS_METHOD_CALL_KEY] is first
    before = second.get_other_args_to_resolve()[PREV_CLASS_METHOD_CALL_KEY]
    assert before.get_options()["name"] == "first"


def test_a_method_of_a_living_actor_knows_its_handle() -> None:
    actor = Account.remote(1)
    node = actor.get.bind()
    assert isinstance(node, ClassMethodNode)
    assert node.get_other_args_to_resolve()[PARENT_CLASS_NODE_KEY] == actor
    assert ray.get(node.execute()) == 1


def test_several_results_of_a_call() -> None:
    actor = Account.remote(5)
    first, second = actor.both.bind()
    assert (first.output_idx, second.output_idx) == (0, 1)
    assert first.class_method_call is second.class_method_call
    assert first.is_class_method_output and not first.is_class_method_call
    assert (actor.get.bind().output_idx, actor.get.bind().class_method_call) == (None, None)


def test_names_of_the_keys() -> None:
    assert (ray.dag.BIND_INDEX_KEY, ray.dag.DAGNODE_TYPE_KEY) == ("bind_index", "__dag_node_type__")
    assert ray.dag.IS_CLASS_METHOD_OUTPUT_KEY == "is_class_method_output"
    assert ray.dag.COLLECTIVE_OPERATION_KEY == "collective_operation"


def test_types_of_the_input() -> None:
    with InputNode(input_type=int) as number:
        assert number.get_result_type() == "int"
    with InputNode(input_type={0: int, "text": str}) as parts:
        assert parts.get_result_type() is None
        assert parts[0].get_result_type() == "int"
        assert parts["text"].get_result_type() == "str"
        assert parts["other"].get_result_type() is None


def test_what_a_part_of_the_input_is_bound_to() -> None:
    with InputNode() as given:
        part = given["x"]
    assert part.key == "x"
    assert part.get_other_args_to_resolve()["dag_input_node"] is given
    assert given["x"] is part


def test_input_of_several_arguments() -> None:
    data = DAGInputData(1, 2, name=3)
    assert (data[0], data[1], data["name"]) == (1, 2, 3)
    with pytest.raises(IndexError):
        data[2]
    with pytest.raises(KeyError):
        data["other"]
    with pytest.raises(ValueError, match="Please only use int index or str as first-level key"):
        data[1.5]  # type: ignore[index]


# rewriting


def test_apply_recursive_goes_through_every_node_once() -> None:
    shared = one.bind()
    seen: list[str] = []

    def note(node: DAGNode) -> DAGNode:
        seen.append(node.get_stable_uuid())
        return node

    dag = one.bind(shared, [shared], key={"deep": one.bind(shared)})
    dag.apply_recursive(note)
    assert seen[0] == shared.get_stable_uuid()
    assert seen[-1] == dag.get_stable_uuid()
    assert len(seen) == len(set(seen)) == 3


def test_apply_recursive_gives_nodes_with_replaced_arguments() -> None:
    dag = one.bind(one.bind(7), [one.bind(8)], key={"deep": one.bind(9)})
    found = dag.apply_recursive(lambda node: (tuple(node.get_args()), node.get_kwargs()))
    assert found == ((((7,), {}), [((8,), {})]), {"key": {"deep": ((9,), {})}})


def test_apply_recursive_leaves_the_graph_as_it_is() -> None:
    inner = one.bind()
    dag = one.bind(inner)
    dag.apply_recursive(lambda node: "replaced")
    assert dag.get_args() == (inner,)


def test_apply_recursive_of_actors_and_inputs() -> None:
    with InputNode() as given:
        dag = one.bind(Account.bind(1).get.bind(), given)
    found = dag.apply_recursive(lambda node: type(node).__name__)
    assert found == "FunctionNode"
    names: list[str] = []

    def note(node: DAGNode) -> None:
        names.append(type(node).__name__)

    dag.apply_recursive(note)
    assert sorted(names) == ["ClassMethodNode", "ClassNode", "FunctionNode", "InputNode"]


def test_apply_recursive_keeps_uuids() -> None:
    dag = one.bind(one.bind())
    assert dag.apply_recursive(lambda node: node.get_stable_uuid()) == dag.get_stable_uuid()


def test_apply_functional_replaces_in_containers() -> None:
    node = one.bind()
    found = one.bind().apply_functional([node, {"key": (node,)}, 3], lambda each: True, lambda each: "new")
    assert found == ["new", {"key": ("new",)}, 3]


def test_apply_functional_asks_and_replaces_each_node() -> None:
    first, second = one.bind(), same.bind(1)
    seen: list[Any] = []
    first.apply_functional([first, second], lambda node: True, seen.append)
    assert seen == [first, second]


def test_traverse_and_apply_goes_both_ways() -> None:
    begin = one.bind()
    left, right = same.bind(begin), same.bind(begin)
    seen: list[DAGNode] = []
    left.traverse_and_apply(seen.append)
    assert seen[0] is left
    assert set(seen) == {begin, left, right}


def test_traverse_and_apply_refuses_nodes_in_containers() -> None:
    with pytest.raises(ValueError, match="Found 1 DAGNodes from the arg"):
        same.bind([one.bind()]).traverse_and_apply(lambda node: None)


# refs that are kept


def test_refs_of_the_last_execution_are_kept_when_asked_for() -> None:
    inner = one.bind()
    dag = same.bind(inner)
    ref = dag.execute(_ray_cache_refs=True)
    kept = asyncio.run(dag.get_object_refs_from_last_execute())
    assert set(kept) == {dag.get_stable_uuid(), inner.get_stable_uuid()}
    assert kept[dag.get_stable_uuid()] == ref
    assert ray.get(list(kept.values())) == [1, 1]


def test_refs_are_forgotten_when_told_so() -> None:
    dag = one.bind()
    dag.execute(_ray_cache_refs=True)
    dag.clear_cache()
    assert asyncio.run(dag.get_object_refs_from_last_execute()) == {}


def test_refs_are_not_kept_unasked() -> None:
    dag = one.bind()
    dag.execute()
    assert asyncio.run(dag.get_object_refs_from_last_execute()) == {}


# executing


def test_a_node_inside_an_object_is_executed() -> None:
    class Box:
        def __init__(self, content: Any) -> None:
            self.content = content

    @ray.remote(num_cpus=0)
    def opened(box: Any) -> Any:
        return ray.get(box.content)

    assert ray.get(opened.bind(Box(same.bind(4))).execute()) == 4


def test_nodes_that_are_made_by_hand() -> None:
    def add(x: int, y: int) -> int:
        return x + y

    node = FunctionNode(add, (1,), {"y": 2}, {"num_cpus": 0})
    assert ray.get(node.execute()) == 3


def test_a_class_node_that_is_made_by_hand() -> None:
    class Box:
        def __init__(self, content: int) -> None:
            self.content = content

        def open(self) -> int:
            return self.content

    assert ray.get(ClassNode(Box, (3,), {}, {"num_cpus": 0}).open.bind().execute()) == 3


def test_an_actor_of_a_graph_runs_its_calls_in_order() -> None:
    account = Account.bind(10)
    account.pay.bind(2)
    account.pay.bind(4)
    assert ray.get(account.get.bind().execute()) == 16


def test_an_actor_as_argument_is_a_handle() -> None:
    @ray.remote(num_cpus=0)
    def ask(account: Any) -> int:
        assert isinstance(account, ray.actor.ActorHandle)
        return int(ray.get(account.get.remote()))

    assert ray.get(ask.bind(Account.bind(8)).execute()) == 8


def test_executing_a_class_node_gives_a_handle() -> None:
    assert isinstance(Account.bind(1).execute(), ray.actor.ActorHandle)


def test_outputs_may_be_the_input() -> None:
    with InputNode() as given:
        dag = MultiOutputNode([same.bind(given), given])
    ref, value = dag.execute(5)
    assert (ray.get(ref), value) == (5, 5)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"), [((1, 2), {"x": 3}, [1, 2, 3]), (("a", "b"), {"x": "c"}, ["a", "b", "c"])]
)
def test_parts_of_several_arguments(args: Any, kwargs: Any, expected: Any) -> None:
    with InputNode() as given:
        dag = MultiOutputNode([same.bind(given[0]), same.bind(given[1]), same.bind(given.x)])
    assert ray.get(dag.execute(*args, **kwargs)) == expected


@pytest.mark.parametrize(("key", "error"), [(2, IndexError), ("absent", KeyError)])
def test_a_part_that_was_not_given(key: Any, error: type[Exception]) -> None:
    with InputNode() as given:
        dag = same.bind(given[key])
    with pytest.raises(error):
        dag.execute(1, 2)


# mistakes


def test_a_node_is_not_bound_again() -> None:
    for node in (one.bind(), Account.bind(), Account.bind().get.bind()):
        with pytest.raises(AttributeError, match=r"\.bind\(\) cannot be used again on"):
            node.bind()


def test_a_node_is_not_called_by_remote() -> None:
    for node in (one.bind(), Account.bind().get.bind()):
        with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on"):
            node.remote()


def test_a_method_of_a_graph_is_not_called_by_remote() -> None:
    with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on ClassMethodNodes"):
        Account.bind().get.remote()


@pytest.mark.parametrize("name", ["remote", "nothing"])
def test_a_method_that_there_is_not(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'Account' has no attribute '{name}'"):
        getattr(Account.bind(), name)


def test_arguments_of_an_input() -> None:
    for args, kwargs in (((0,), {}), ((), {"key": 1})):
        with pytest.raises(ValueError, match="InputNode should not take any args or kwargs"):
            InputNode(*args, **kwargs)


def test_an_input_for_a_constructor() -> None:
    with (
        InputNode() as given,
        pytest.raises(ValueError, match="cannot be used as args, kwargs, or other_args_to_resolve"),
    ):
        Account.bind(given)


def test_a_part_by_another_key() -> None:
    with (
        InputNode() as given,
        pytest.raises(AssertionError, match="Please only use int index or str as first-level key"),
    ):
        given[(1, 2)]


def test_an_input_outside_of_with() -> None:
    with pytest.raises(
        AssertionError, match="InputNode is a singleton instance that should be only used in context manager"
    ):
        same.bind(InputNode()).execute(1)


def test_two_inputs() -> None:
    with InputNode() as first, InputNode() as second:
        dag = one.bind(same.bind(first), same.bind(second))
    with pytest.raises(AssertionError, match="Each DAG should only have one unique InputNode"):
        dag.execute(1)


def test_outputs_that_are_no_list() -> None:
    with pytest.raises(ValueError, match="Invalid input type for `args`"):
        MultiOutputNode(one.bind())


def test_a_negative_option_of_a_bound_task() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        one.options(num_cpus=-1).bind().execute()


# settings


def test_defaults_of_compiled_graphs() -> None:
    from ray.dag import context

    assert (context.DEFAULT_SUBMIT_TIMEOUT_S, context.DEFAULT_GET_TIMEOUT_S) == (10, 10)
    assert (context.DEFAULT_TEARDOWN_TIMEOUT_S, context.DEFAULT_BUFFER_SIZE_BYTES) == (30, 1_000_000)
    assert (context.DEFAULT_MAX_INFLIGHT_EXECUTIONS, context.DEFAULT_MAX_BUFFERED_RESULTS) == (10, 1000)
