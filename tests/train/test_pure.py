"""Capacity, ranks, kept checkpoints, causes of failures: functions without I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.resources import Resources
from skate.train.configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from skate.train.controller.failures import causes_first, described
from skate.train.controller.ranks import places
from skate.train.controller.worker_capacity import fitting_together, why_not
from skate.train.storage.retention_policy import KeptCheckpoint, best_first, score, to_delete
from skate.train.worker.train_function import call, takes_config

NODES = [{"CPU": 4.0, "GPU": 1.0}, {"CPU": 2.0}]


@pytest.mark.parametrize(
    ("bundle", "strategy", "most"),
    [
        ({"CPU": 1}, "PACK", 6),
        ({"CPU": 2}, "SPREAD", 3),
        ({"CPU": 2}, "STRICT_PACK", 2),
        ({"CPU": 1}, "STRICT_SPREAD", 2),
        ({"GPU": 1}, "PACK", 1),
        ({"GPU": 0.5, "CPU": 1}, "PACK", 2),
        ({"CPU": 8}, "PACK", 0),
        ({"TPU": 1}, "PACK", 0),
    ],
)
def test_room_by_strategy(bundle: dict[str, float], strategy: str, most: int) -> None:
    assert fitting_together(Resources(bundle), NODES, 100, strategy) == most
    assert why_not(Resources(bundle), NODES, most, strategy) == ""
    assert f"room for {most} worker" in why_not(Resources(bundle), NODES, most + 1, strategy)


def test_what_is_missing_is_named() -> None:
    text = why_not(Resources({"GPU": 2, "CPU": 1}), NODES, 3, "PACK")
    assert "6 GPU, 3 CPU in all" in text and "no node has 2 GPU" in text and "use_gpu=False" in text


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
def test_ranks_are_a_permutation_with_the_workers_of_a_node_together(nodes: list[str]) -> None:
    order, found = places(nodes)
    assert sorted(order) == list(range(len(nodes)))
    assert [place.world_rank for place in found] == list(range(len(nodes)))
    sorted_nodes = [nodes[position] for position in order]
    changes = sum(a != b for a, b in zip(sorted_nodes, sorted_nodes[1:], strict=False))
    assert changes == len(set(nodes)) - 1
    for place, node in zip(found, sorted_nodes, strict=True):
        assert place.local_world_size == nodes.count(node)
        assert place.node_rank == list(dict.fromkeys(nodes)).index(node)
    for node in set(nodes):
        local = [p.local_rank for p, at in zip(found, sorted_nodes, strict=True) if at == node]
        assert local == list(range(nodes.count(node)))


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5), st.just(float("nan"))), max_size=12),
    st.integers(1, 4),
    st.sampled_from(["max", "min"]),
    st.booleans(),
)
def test_the_best_and_the_last_are_kept(scores: list[Any], keep: int, order: str, ranked: bool) -> None:
    config = CheckpointConfig(keep, "s" if ranked else None, order)
    checkpoints = [
        KeptCheckpoint(str(at), {} if value is None else {"s": value}, at) for at, value in enumerate(scores)
    ]
    gone = to_delete(checkpoints, config)
    left = [each for each in checkpoints if each not in gone]
    assert len(left) <= keep + 1 and len(left) >= min(keep, len(checkpoints))
    if checkpoints:
        assert checkpoints[-1] in left
    if not ranked:
        assert left == checkpoints[-keep:]
    elif len(checkpoints) > keep:
        assert set(map(id, best_first(checkpoints, "s", order)[:keep])) <= set(map(id, left))
        numbers = [score(each.metrics, "s") for each in best_first(checkpoints, "s", order)]
        known = [each for each in numbers if each is not None]
        assert known == sorted(known, reverse=order == "max") and numbers[: len(known)] == known


def test_nested_metrics_are_ranked_by_their_path() -> None:
    assert score({"eval": {"loss": 0.5}}, "eval/loss") == 0.5
    assert score({"eval/loss": 0.25}, "eval/loss") == 0.25
    assert score({"eval": 3}, "eval/loss") is None
    assert score({"name": "x"}, "name") is None


def test_an_echo_of_a_failure_is_told_after_its_cause() -> None:
    echo = RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:1234")
    cause = ValueError("the true one")
    found = causes_first([(0, echo), (1, cause)])
    assert [rank for rank, _ in found] == [1, 0]
    text = described(found, {2: '  File "x.py", line 1, in wait\n'}, 3)
    assert (
        text.index("rank 1 of 3 failed first")
        < text.index("the true one")
        < text.index("rank 0 failed after it")
    )
    assert "rank 2 was still running" in text and "in wait" in text


def _none() -> str:
    return "none"


def _one(config: dict[str, Any]) -> str:
    return f"one {config}"


def _default(config: Any = 3) -> str:
    return f"default {config}"


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        (_none, "none"),
        (_one, "one {'a': 1}"),
        (_default, "default {'a': 1}"),
        (lambda *a: f"{a}", "({'a': 1},)"),
    ],
)
def test_the_config_goes_to_functions_that_take_it(function: Callable[..., Any], outcome: str) -> None:
    assert call(function, {"a": 1}) == outcome


def test_functions_of_two_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs 2.*train_loop_config"):
        takes_config(lambda a, b: None)
    with pytest.raises(TypeError, match="not int"):
        takes_config(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: ScalingConfig(num_workers="2"), ValueError, "fewest, most.*got '2'"),  # type: ignore[arg-type]
        (lambda: ScalingConfig(num_workers=-1), ValueError, "num_workers=-1.*cannot be negative"),
        (lambda: ScalingConfig(num_workers=(3, 2)), ValueError, "fewest, most"),
        (lambda: ScalingConfig(resources_per_worker={"GPU": 1}), ValueError, "1 GPU.*set use_gpu=True"),
        (lambda: ScalingConfig(use_gpu=True, resources_per_worker={"GPU": 0}), ValueError, "leave GPU out"),
        (lambda: ScalingConfig(placement_strategy="TIGHT"), ValueError, "PACK, SPREAD"),
        (lambda: ScalingConfig(trainer_resources={"CPU": 1}), DeprecationWarning, "trainer_resources"),
        (lambda: ScalingConfig(num_workers=2, label_selector=[{}]), ValueError, "1 entries for 2"),
        (lambda: CheckpointConfig(num_to_keep=0), ValueError, ">= 1"),
        (lambda: CheckpointConfig(checkpoint_score_order="up"), ValueError, "'max' or 'min'"),
        (lambda: CheckpointConfig(checkpoint_frequency=1), DeprecationWarning, "checkpoint_frequency"),
        (lambda: FailureConfig(max_failures=-2), ValueError, "max_failures"),
        (lambda: FailureConfig(fail_fast=True), DeprecationWarning, "fail_fast"),
        (lambda: RunConfig(stop={"a": 1}), DeprecationWarning, "stop"),
        (lambda: RunConfig(verbose=1), DeprecationWarning, "verbose"),
        (lambda: RunConfig(name="a/b"), ValueError, "valid folder name"),
        (lambda: RunConfig(callbacks=[3]), ValueError, "UserCallback"),
    ],
)
def test_settings_out_of_range_say_what_is_wanted(make: Callable[[], Any], kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        make()
