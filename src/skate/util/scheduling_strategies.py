"""Values of the option `scheduling_strategy`, which controls where a task or an actor runs.

Two strategies are plain strings: "DEFAULT" packs until a node is half full and then spreads; "SPREAD" puts
consecutive tasks on different nodes if possible.
"""

from __future__ import annotations

import re
from typing import Any

DEFAULT = "DEFAULT"
SPREAD = "SPREAD"

_NODE_ID = re.compile(r"[0-9a-fA-F]{56}")
_NIL_NODE_ID = "f" * 56


class _Value:
    """Mixin with equality, hash and repr by the constructor's fields."""

    def _fields(self) -> dict[str, Any]:
        return dict(vars(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value) or type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), *map(_hashable, self._fields().values())))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields().items())
        return f"{type(self).__name__}({fields})"


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class PlacementGroupSchedulingStrategy(_Value):
    """Run in the resources reserved by a placement group.

    Args:
        placement_group: the group, or None to leave the group of the parent task.
        placement_group_bundle_index: the bundle to run in; -1 means any bundle with room.
        placement_group_capture_child_tasks: True if tasks and actors started from this one run in the group as
            well; None means no, unless the parent's setting is True.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the bundle index is below -1.
    """

    def __init__(
        self,
        placement_group: Any,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        index, capture = placement_group_bundle_index, placement_group_capture_child_tasks
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"placement_group_bundle_index must be an int, not {index!r}")
        if index < -1:
            raise ValueError(
                f"placement group bundle index {index} is invalid: placement_group_bundle_index must be -1 (any bundle) or "
                "the index of a bundle"
            )
        if capture is not None and not isinstance(capture, bool):
            raise TypeError(
                f"placement_group_capture_child_tasks must be True, False or None, not {capture!r}"
            )
        self.placement_group = placement_group
        self.placement_group_bundle_index = index
        self.placement_group_capture_child_tasks = capture


class NodeAffinitySchedulingStrategy(_Value):
    """Run on one particular node.

    Args:
        node_id: its id: 56 hexadecimal digits, as in `nodes()` and `get_runtime_context().get_node_id()`.
        soft: run elsewhere (True) or fail (False) if the node is gone or can never satisfy the request.
        _spill_on_unavailable: with soft=True, run elsewhere also while the node is busy.
        _fail_on_unavailable: with soft=False, fail also while the node is busy.

    Raises:
        ValueError: the id is not a node id, or a flag contradicts `soft`.
    """

    def __init__(
        self,
        node_id: str,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        text = node_id if isinstance(node_id, str) else _hex_of(node_id)
        if not _NODE_ID.fullmatch(text) or text.lower() == _NIL_NODE_ID:
            raise ValueError(
                f"Invalid node_id {text!r}. Node ID must be a valid hex string of 56 digits; "
                f'nodes() lists them under "NodeID"'
            )
        if _spill_on_unavailable and not soft:
            raise ValueError(
                "_spill_on_unavailable cannot be set when soft is False: a task with hard affinity never runs on another node"
            )
        if _fail_on_unavailable and soft:
            raise ValueError(
                "_fail_on_unavailable cannot be set when soft is True: a soft affinity runs elsewhere instead"
            )
        self.node_id = text
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable


def _hex_of(node_id: Any) -> str:
    to_hex = getattr(node_id, "hex", None)
    return str(to_hex()) if callable(to_hex) else repr(node_id)


class _LabelValues(_Value):
    def __init__(self, *values: str) -> None:
        name = type(self).__name__
        if not values:
            raise ValueError(
                f"The variadic parameter of the {name} operator must be a non-empty tuple: {name}() needs at least one label "
                f'value, such as {name}("us-west")'
            )
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise ValueError(
                    f"Type of value in position {index} for the {name} operator must be str, not {value!r}"
                )
        self.values = list(values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


class In(_LabelValues):
    """The node's label has one of these values."""


class NotIn(_LabelValues):
    """The node's label has none of these values, or the node has no such label."""


class Exists(_Value):
    """The node has the label, with any value."""


class DoesNotExist(_Value):
    """The node has no such label."""


LabelMatchOperator = In | NotIn | Exists | DoesNotExist


class LabelMatchExpression(_Value):
    """One condition on a node: its label `key` satisfies `operator`."""

    def __init__(self, key: str, operator: LabelMatchOperator) -> None:
        self.key = key
        self.operator = operator


class NodeLabelSchedulingStrategy(_Value):
    """Run on a node whose labels satisfy conditions.

    Args:
        hard: label name -> In, NotIn, Exists or DoesNotExist; all must hold.
        soft: conditions of the same form, preferred among the nodes that `hard` leaves.

    Raises:
        ValueError: both are empty, or one is not such a dict.
    """

    def __init__(
        self,
        hard: dict[str, LabelMatchOperator] | None,
        *,
        soft: dict[str, LabelMatchOperator] | None = None,
    ) -> None:
        self.hard = _expressions("hard", hard)
        self.soft = _expressions("soft", soft)
        if not self.hard and not self.soft:
            raise ValueError(
                "NodeLabelSchedulingStrategy needs a condition in hard or in soft, "
                'such as hard={"region": In("us-west")}'
            )


def _expressions(
    argument: str, conditions: dict[str, LabelMatchOperator] | None
) -> list[LabelMatchExpression]:
    if conditions is None:
        return []
    if not isinstance(conditions, dict):
        raise ValueError(
            f'{argument} must be a dict of conditions, such as {{"region": In("us-west")}}, '
            f"not {type(conditions).__name__}"
        )
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"{argument} must have label names of type str as its keys, not {key!r}")
        if not isinstance(operator, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(
                f"{argument}[{key!r}] must be In(...), NotIn(...), Exists() or DoesNotExist(), "
                f"not {operator!r}"
            )
    return [LabelMatchExpression(key, operator) for key, operator in conditions.items()]


SchedulingStrategyT = (
    str
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
    | None
)
