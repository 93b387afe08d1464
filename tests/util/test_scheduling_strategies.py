"""Scheduling strategies and accelerator names: validation, repr, equality."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from skate.util import accelerators
from skate.util.annotations import RayDeprecationWarning
from skate.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

NODE = "ab" * 28


def test_placement_group_strategy() -> None:
    strategy = PlacementGroupSchedulingStrategy(None)
    assert strategy.placement_group is None
    assert strategy.placement_group_bundle_index == -1
    assert strategy.placement_group_capture_child_tasks is None
    assert repr(strategy) == (
        "PlacementGroupSchedulingStrategy(placement_group=None, placement_group_bundle_index=-1, "
        "placement_group_capture_child_tasks=None)"
    )
    assert strategy == PlacementGroupSchedulingStrategy(None, -1)
    assert strategy != PlacementGroupSchedulingStrategy(None, 0)


def test_placement_group_strategy_refuses() -> None:
    with pytest.raises(ValueError, match="-2"):
        PlacementGroupSchedulingStrategy(None, -2)
    for index in ("0", True, 1.0):
        with pytest.raises(TypeError, match="bundle_index"):
            PlacementGroupSchedulingStrategy(None, index)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="capture_child_tasks"):
        PlacementGroupSchedulingStrategy(None, 0, "yes")  # type: ignore[arg-type]


def test_node_affinity() -> None:
    class NodeID:
        def hex(self) -> str:
            return NODE

    strategy = NodeAffinitySchedulingStrategy(NODE, soft=True)
    assert (strategy.node_id, strategy.soft) == (NODE, True)
    assert strategy == NodeAffinitySchedulingStrategy(NodeID(), soft=True)  # type: ignore[arg-type]
    assert strategy != NodeAffinitySchedulingStrategy(NODE, soft=False)
    assert len({strategy, NodeAffinitySchedulingStrategy(NODE, True)}) == 1
    assert pickle.loads(pickle.dumps(strategy)) == strategy


@pytest.mark.parametrize("node_id", ["", "xyz", "ab", "f" * 56, NODE + "ab", 5])
def test_node_affinity_refuses_what_is_no_node_id(node_id: Any) -> None:
    with pytest.raises(ValueError, match="56 digits"):
        NodeAffinitySchedulingStrategy(node_id, soft=False)


def test_node_affinity_refuses_flags_that_contradict() -> None:
    with pytest.raises(ValueError, match="when soft is False"):
        NodeAffinitySchedulingStrategy(NODE, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError, match="when soft is True"):
        NodeAffinitySchedulingStrategy(NODE, soft=True, _fail_on_unavailable=True)


def test_node_labels() -> None:
    strategy = NodeLabelSchedulingStrategy(
        {"region": In("eu", "us"), "gpu": Exists()}, soft={"spot": NotIn("yes")}
    )
    assert [(each.key, each.operator) for each in strategy.hard] == [
        ("region", In("eu", "us")),
        ("gpu", Exists()),
    ]
    assert [(each.key, each.operator) for each in strategy.soft] == [("spot", NotIn("yes"))]
    assert repr(strategy.soft[0]) == "LabelMatchExpression(key='spot', operator=NotIn('yes'))"
    same = NodeLabelSchedulingStrategy(
        {"region": In("eu", "us"), "gpu": Exists()}, soft={"spot": NotIn("yes")}
    )
    assert strategy == same and hash(strategy) == hash(same)
    assert NodeLabelSchedulingStrategy(None, soft={"gpu": DoesNotExist()}).hard == []
    assert In("a") != NotIn("a")
    assert Exists() == Exists() != DoesNotExist()


def test_node_labels_refuse() -> None:
    with pytest.raises(ValueError, match="hard or in soft"):
        NodeLabelSchedulingStrategy({})
    with pytest.raises(ValueError, match="must be a dict"):
        NodeLabelSchedulingStrategy([("region", In("eu"))])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="label names"):
        NodeLabelSchedulingStrategy({1: Exists()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="Exists"):
        NodeLabelSchedulingStrategy({"region": "eu"})  # type: ignore[dict-item]
    for operator in (In, NotIn):
        with pytest.raises(ValueError, match="at least one"):
            operator()
        with pytest.raises(ValueError, match="in position 1"):
            operator("a", 5)  # type: ignore[arg-type]


def test_accelerator_names() -> None:
    assert accelerators.NVIDIA_H100 == "H100"
    assert accelerators.NVIDIA_TESLA_V100 == "V100"
    assert accelerators.NVIDIA_A100_80G == "A100-80G"
    assert accelerators.GOOGLE_TPU_V6E == "TPU-V6E"
    assert accelerators.AWS_NEURON_CORE == "aws-neuron-core"
    with pytest.warns(RayDeprecationWarning, match="NVIDIA_A100"):
        assert accelerators.NVIDIA_TESLA_A100 == "A100"
    with pytest.raises(AttributeError):
        _ = accelerators.NVIDIA_ABACUS
