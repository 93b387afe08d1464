"""The input of a graph at execution."""

from __future__ import annotations

from typing import Any

from skate.dag.node import DAGInputData, DAGNode, Results
from skate.experimental.gradio_utils import type_to_string

__all__ = ["DAGInputData", "InputAttributeNode", "InputNode"]

#: The key under which an InputNode records that its `with` was entered.
IN_CONTEXT_MANAGER = "__in_context_manager__"
_RESULT_TYPE = "result_type_string"


class InputNode(DAGNode):
    """Represents the argument of `execute`; `input[0]`, `input["x"]` and `input.x` represent parts of it.

    Use as `with InputNode() as given: ...`.
    """

    kind = "an input"

    is_input = True

    def __init__(
        self,
        *args: Any,
        input_type: Any = None,
        _other_args_to_resolve: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if args or kwargs:
            raise ValueError("InputNode should not take any args or kwargs: its value is passed to execute()")
        super().__init__(other_args_to_resolve=_other_args_to_resolve)
        self.input_type = input_type
        if isinstance(input_type, type):
            self.set_context(_RESULT_TYPE, type_to_string(input_type))
        self._parts: dict[Any, InputAttributeNode] = {}

    def __enter__(self) -> InputNode:
        self.set_context(IN_CONTEXT_MANAGER, True)
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def call(self, results: Results) -> Any:
        """Return the argument."""
        if not self._bound_other_args_to_resolve.get(IN_CONTEXT_MANAGER):
            raise AssertionError(
                "InputNode is a singleton instance that should be only used in context manager: "
                "`with InputNode() as given: ...`"
            )
        return results.given

    def set_context(self, key: str, val: Any) -> None:
        """Store a value with the node, among its `get_other_args_to_resolve()`."""
        self._bound_other_args_to_resolve[key] = val

    def get_result_type(self) -> str | None:
        """Return the name of the type that it was created with, or None."""
        found: str | None = self._bound_other_args_to_resolve.get(_RESULT_TYPE)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)
        return self._part(name, by_attribute=True)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, (int, str)):
            raise AssertionError(
                f"Please only use int index or str as first-level key to access fields of dag input, not {key!r}"
            )
        return self._part(key, by_attribute=False)

    def all_parts(self) -> list[InputAttributeNode]:
        """The requested parts."""
        return list(self._parts.values())

    def _part(self, key: int | str, by_attribute: bool) -> InputAttributeNode:
        return self._parts.get((key, by_attribute)) or self._new_part(key, by_attribute)

    def _new_part(self, key: int | str, by_attribute: bool) -> InputAttributeNode:
        kinds = self.input_type if isinstance(self.input_type, dict) else {}
        kind = type_to_string(kinds[key]) if key in kinds and not by_attribute else None
        accessor = "__getattr__" if by_attribute else "__getitem__"
        part = self._parts[key, by_attribute] = InputAttributeNode(self, key, accessor, kind)
        return part


class InputAttributeNode(DAGNode):
    """Represents a part of the input."""

    kind = "a part of the input"

    def __init__(
        self, dag_input_node: InputNode, key: int | str, accessor_method: str, input_type: str | None = None
    ) -> None:
        bound = {
            "dag_input_node": dag_input_node,
            "key": key,
            "accessor_method": accessor_method,
            _RESULT_TYPE: input_type,
        }
        super().__init__(other_args_to_resolve=bound)
        self._key = key
        self._by_attribute = accessor_method == "__getattr__"

    def get_result_type(self) -> str | None:
        """Return the name of the type that the input declares for this part, or None."""
        found: str | None = self._bound_other_args_to_resolve[_RESULT_TYPE]
        return found

    def __getitem__(self, key: object) -> object:
        raise TypeError(
            f"'InputAttributeNode' object is not subscriptable: {key!r} of a part of the input; access it in a method"
        )

    @property
    def key(self) -> int | str:
        """The index or name of the part."""
        return self._key

    def call(self, results: Results) -> Any:
        """The part."""
        whole = results[self._bound_other_args_to_resolve["dag_input_node"]]
        if self._by_attribute and not isinstance(whole, DAGInputData):
            return getattr(whole, str(self._key))
        return whole[self._key]

    def label(self) -> str:
        """The index or name of the part."""
        return repr(self._key)
