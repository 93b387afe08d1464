"""Where a task or an actor may run: strategies by name, by node and by label, on one node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import ActorUnschedulableError, TaskUnschedulableError
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

NOBODY = "ab" * 28


@pytest.fixture(scope="module")
def labelled() -> Iterator[None]:
    """One node with the labels zone=a and disk=ssd."""
    ray.shutdown()
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=0,
        labels={"zone": "a", "disk": "ssd"},
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


pytestmark = pytest.mark.usefixtures("labelled")


def here_class() -> Any:
    @ray.remote
    class Here:
        def node(self) -> str:
            return ray.get_runtime_context().get_node_id()

    return Here


def here_task() -> Any:
    @ray.remote
    def here() -> str:
        return ray.get_runtime_context().get_node_id()

    return here


def run(kind: str, strategy: Any, timeout: float = 60) -> str:
    if kind == "task":
        return ray.get(here_task().options(scheduling_strategy=strategy).remote(), timeout=timeout)
    return ray.get(here_class().options(scheduling_strategy=strategy).remote().node.remote(), timeout=timeout)


def this_node() -> str:
    return ray.get_runtime_context().get_node_id()


@pytest.mark.parametrize("kind", ["task", "actor"])
@pytest.mark.parametrize("strategy", [None, "DEFAULT", "SPREAD"])
def test_core_38_strategies_by_name(kind: str, strategy: str | None) -> None:
    assert run(kind, strategy) == this_node()


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_38_unknown_name_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="FOO"):
        run(kind, "FOO")


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_38_other_types_are_refused(kind: str) -> None:
    with pytest.raises(TypeError, match="scheduling_strategy"):
        run(kind, 5)


@pytest.mark.parametrize("kind", ["task", "actor"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_core_38_node_affinity_to_this_node(kind: str, soft: bool) -> None:
    assert run(kind, NodeAffinitySchedulingStrategy(this_node(), soft=soft)) == this_node()


def test_core_38_hard_affinity_of_a_task_to_an_unknown_node_fails() -> None:
    with pytest.raises(TaskUnschedulableError):
        run("task", NodeAffinitySchedulingStrategy(NOBODY, soft=False))


def test_core_38_hard_affinity_of_an_actor_to_an_unknown_node_fails() -> None:
    with pytest.raises(ActorUnschedulableError):
        run("actor", NodeAffinitySchedulingStrategy(NOBODY, soft=False))


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_38_soft_affinity_to_an_unknown_node_runs_elsewhere(kind: str) -> None:
    assert run(kind, NodeAffinitySchedulingStrategy(NOBODY, soft=True)) == this_node()


def test_core_38_affinity_wants_a_hexadecimal_id() -> None:
    with pytest.raises(ValueError, match="zz"):
        run("task", NodeAffinitySchedulingStrategy("zz", soft=False))


def test_core_38_node_affinity_keeps_its_arguments() -> None:
    strategy = NodeAffinitySchedulingStrategy(NOBODY, soft=True)
    assert (strategy.node_id, strategy.soft) == (NOBODY, True)


def test_core_38_strategy_in_the_decorator() -> None:
    @ray.remote(scheduling_strategy=NodeAffinitySchedulingStrategy(this_node(), soft=False))
    def here() -> str:
        return ray.get_runtime_context().get_node_id()

    assert ray.get(here.remote()) == this_node()


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_34_no_placement_group_is_a_strategy(kind: str) -> None:
    assert run(kind, PlacementGroupSchedulingStrategy(placement_group=None)) == this_node()


# labels


@pytest.mark.parametrize(
    "hard",
    [
        {"zone": In("a", "b")},
        {"zone": NotIn("b")},
        {"zone": Exists()},
        {"region": DoesNotExist()},
        {"zone": In("a"), "disk": In("ssd")},
    ],
    ids=["in", "not_in", "exists", "does_not_exist", "both"],
)
@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_38_hard_labels_that_match(kind: str, hard: dict[str, Any]) -> None:
    assert run(kind, NodeLabelSchedulingStrategy(hard)) == this_node()


def test_core_38_soft_labels_that_do_not_match() -> None:
    assert run("task", NodeLabelSchedulingStrategy({}, soft={"zone": In("q")})) == this_node()


def test_core_38_label_of_the_node_id() -> None:
    assert run("task", NodeLabelSchedulingStrategy({"ray.io/node-id": In(this_node())})) == this_node()


@pytest.mark.parametrize(
    "make",
    [
        lambda: In(),
        lambda: In(5),
        lambda: NotIn(),
        lambda: NodeLabelSchedulingStrategy({}),
        lambda: NodeLabelSchedulingStrategy({"zone": "a"}),
        lambda: NodeLabelSchedulingStrategy("zone"),
        lambda: NodeLabelSchedulingStrategy({5: In("a")}),
    ],
    ids=["in_nothing", "in_int", "not_in_nothing", "empty", "no_operator", "text", "int_key"],
)
def test_core_38_bad_label_expressions_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize("value", ["a", "in(a,b)", "!b", "!in(b,c)"])
@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_38_label_selector_that_matches(kind: str, value: str) -> None:
    options = {"label_selector": {"zone": value}}
    if kind == "task":
        ref = here_task().options(**options).remote()
        assert ray.get(ref, timeout=60) == this_node()
        return
    actor = here_class().options(**options).remote()
    assert ray.get(actor.node.remote(), timeout=60) == this_node()


@pytest.mark.parametrize("value", ["in(a", "in()", "not allowed", "-a"])
def test_core_38_bad_label_selector_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        here_task().options(label_selector={"zone": value}).remote()


def test_core_38_fallback_strategy_is_tried_next() -> None:
    ref = (
        here_task()
        .options(label_selector={"zone": "q"}, fallback_strategy=[{"label_selector": {"zone": "a"}}])
        .remote()
    )
    assert ray.get(ref, timeout=60) == this_node()


@pytest.mark.parametrize("how", ["strategy", "selector"])
@pytest.mark.chosen_difference(
    "labels that no node has fail at once and are named; Ray waits forever", id="D-infeasible"
)
def test_core_38_labels_that_no_node_has_fail_at_once(how: str) -> None:
    options: dict[str, Any] = {"label_selector": {"zone": "q"}}
    if how == "strategy":
        options = {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In("q")})}
    with pytest.raises(TaskUnschedulableError, match="zone"):
        ray.get(here_task().options(**options).remote(), timeout=30)
