"""Graphs of tasks and actor calls: bind, execute, input, outputs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import skate as ray
from skate.dag import (
    ClassMethodNode,
    ClassNode,
    DAGNode,
    FunctionNode,
    InputAttributeNode,
    InputNode,
    MultiOutputNode,
)


@ray.remote
def add(*numbers: Any, extra: int = 0) -> Any:
    return sum(numbers) + extra


@ray.remote
def same(value: Any) -> Any:
    return value


@ray.remote
class Account:
    def __init__(self, balance: int = 0) -> None:
        self.balance = balance

    def pay_in(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    def both(self) -> tuple[int, str]:
        return self.balance, "euros"


def get(node: DAGNode, *args: Any, **kwargs: Any) -> Any:
    return ray.get(node.execute(*args, **kwargs))


# functions


def test_a_bound_function_runs_when_executed() -> None:
    node = add.bind(1, 2, extra=3)
    assert isinstance(node, FunctionNode)
    assert isinstance(node.execute(), ray.ObjectRef)
    assert get(node) == 6
    assert (node.get_args(), node.get_kwargs()) == ((1, 2), {"extra": 3})


def test_nodes_are_arguments_of_nodes() -> None:
    assert get(add.bind(add.bind(1, 2), extra=add.bind(3))) == 6


def test_a_shared_node_is_executed_once_each_time() -> None:
    counter = Account.remote()
    step = counter.pay_in.bind(1)
    assert ray.get(MultiOutputNode([step, step, add.bind(step, step)]).execute()) == [1, 1, 2]
    assert get(step) == 2


def test_nodes_inside_containers_become_refs() -> None:
    given = get(same.bind({"list": [add.bind(1)], "pair": (add.bind(2), 5)}))
    assert ray.get([given["list"][0], given["pair"][0]]) == [1, 2]
    assert given["pair"][1] == 5


def test_options_go_with_the_call() -> None:
    node = add.options(num_cpus=0, name="free").bind(1)
    assert get(node) == 1
    assert node.get_options()["name"] == "free"


def test_refs_are_ordinary_arguments() -> None:
    assert get(add.bind(ray.put(4))) == 4


def test_a_node_is_not_bound_or_called_again() -> None:
    node = add.bind(1)
    for name in ("bind", "remote"):
        with pytest.raises(AttributeError, match=r"\.execute\(\)"):
            getattr(node, name)
    with pytest.raises(TypeError):
        node()  # type: ignore[operator]


def test_wrong_arguments_are_refused_when_executed() -> None:
    with pytest.raises(TypeError, match="same"):
        same.bind(1, 2).execute()


def test_a_long_chain() -> None:
    node: DAGNode = add.bind(0)
    for _ in range(2_000):
        node = same.bind(node)
    assert len(node.upstream()) == 2_001


def test_a_graph_can_be_pickled_by_its_parts() -> None:
    with InputNode() as given:
        part = given.x
    assert pickle.loads(pickle.dumps(part)).key == "x"
    assert pickle.loads(pickle.dumps(part)).get_stable_uuid() == part.get_stable_uuid()


# actors


def test_each_execution_has_an_actor_of_its_own() -> None:
    account = Account.bind(10)
    assert isinstance(account, ClassNode)
    step = account.pay_in.bind(5)
    assert isinstance(step, ClassMethodNode)
    assert step.get_method_name() == "pay_in"
    assert [get(step), get(step)] == [15, 15]
    assert isinstance(account.execute(), ray.actor.ActorHandle)


def test_one_actor_and_the_order_of_binding_within_an_execution() -> None:
    account = Account.bind(1)
    account.pay_in.bind(10)
    last = account.pay_in.bind(100)
    assert get(last) == 111
    assert get(add.bind(last, account.pay_in.bind(1))) == 111 + 112


def test_methods_of_a_living_actor() -> None:
    account = Account.remote(1)
    step = account.pay_in.bind(2)
    assert [get(step), get(step)] == [3, 5]


def test_several_results_are_several_nodes() -> None:
    balance, currency = Account.remote(3).both.options(num_returns=2).bind()
    assert ray.get(MultiOutputNode([currency, balance]).execute()) == ["euros", 3]
    assert balance.is_class_method_output and balance.output_idx == 0


def test_results_of_a_bound_class_with_several_results() -> None:
    account = Account.bind(3)
    balance, _ = account.both.options(num_returns=2).bind()
    assert get(balance) == 3
    assert get(account.pay_in.bind(1)) == 4


def test_mistakes_with_methods() -> None:
    account = Account.bind()
    with pytest.raises(AttributeError, match="no attribute 'pay_out' that can be called"):
        _ = account.pay_out
    with pytest.raises(TypeError, match=r"\.bind"):
        account.pay_in(1)
    with pytest.raises(AttributeError, match=r"\.bind\(\)"):
        account.pay_in.remote(1)


# input


def test_the_input_as_a_whole() -> None:
    with InputNode() as given:
        node = add.bind(given, extra=given)
    assert get(node, 4) == 8


def test_parts_of_the_input() -> None:
    with InputNode() as given:
        node = add.bind(given[0], given.y, given["z"])
    assert isinstance(given[0], InputAttributeNode)
    assert get(node, 1, y=2, z=3) == 6


def test_parts_of_a_single_argument() -> None:
    with InputNode() as given:
        first, named = add.bind(given[0]), add.bind(given["a"])
    assert get(first, [7, 8]) == 7
    assert get(named, {"a": 9}) == 9


def test_attributes_of_a_single_argument() -> None:
    with InputNode() as given:
        node = add.bind(given.real)
    assert get(node, 5) == 5


def test_an_argument_that_was_not_given() -> None:
    with InputNode() as given:
        node = add.bind(given[0], given.y)
    with pytest.raises(KeyError, match="'y'"):
        node.execute(1, 2)


def test_mistakes_with_the_input() -> None:
    with pytest.raises(AssertionError, match="with InputNode"):
        add.bind(InputNode()).execute(1)
    with pytest.raises(ValueError, match="should not take any args"):
        InputNode(5)
    with InputNode() as given:
        with pytest.raises(ValueError, match="ClassNode constructor"):
            Account.bind(given)
        with pytest.raises(AssertionError, match=r"1\.5"):
            given[1.5]  # type: ignore[index]


# outputs


def test_several_outputs() -> None:
    with InputNode() as given:
        node = MultiOutputNode([add.bind(given), add.bind(given, 1)])
    assert ray.get(node.execute(1)) == [1, 2]
    with pytest.raises(ValueError, match="FunctionNode"):
        MultiOutputNode(add.bind(1))


def test_tensor_transport_is_checked() -> None:
    node = add.bind(1)
    assert node.with_tensor_transport("nccl") is node
    with pytest.raises(ValueError, match="pigeon"):
        node.with_tensor_transport("pigeon")
