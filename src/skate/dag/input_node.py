"""What a graph is given when it is executed."""

from __future__ import annotations

from typing import Any

from skate.dag.node import DAGInputData, DAGNode, Results

__all__ = ["DAGInputData", "InputAttributeNode", "InputNode"]


class InputNode(DAGNode):
    """Stands for the argument of `execute`; `input[0]`, `input["x"]` and `input.x` stand for parts of it.

    To be used as `with InputNode() as given: ...`.
    """

    kind = "an input"

    def __init__(self, *args: Any, input_type: Any = None, **kwargs: Any) -> None:
        if args or kwargs:
            raise ValueError("InputNode() takes no arguments: what it stands for is given to execute()")
        super().__init__()
        self.input_type = input_type
        self._entered = False
        self._parts: dict[Any, InputAttributeNode] = {}

    def __enter__(self) -> InputNode:
        self._entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def call(self, results: Results) -> Any:
        """The argument."""
        if not self._entered:
            raise AssertionError("an InputNode is used in a with statement: `with InputNode() as given: ...`")
        return results.given

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)
        return self._part(name, by_attribute=True)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, (int, str)):
            raise AssertionError(f"a part of the input is named by an index or by a text, not by {key!r}")
        return self._part(key, by_attribute=False)

    def all_parts(self) -> list[InputAttributeNode]:
        """The parts that were asked for."""
        return list(self._parts.values())

    def _part(self, key: int | str, by_attribute: bool) -> InputAttributeNode:
        return self._parts.get((key, by_attribute)) or self._new_part(key, by_attribute)

    def _new_part(self, key: int | str, by_attribute: bool) -> InputAttributeNode:
        part = self._parts[key, by_attribute] = InputAttributeNode(self, key, by_attribute)
        return part


class InputAttributeNode(DAGNode):
    """Stands for a part of the input."""

    kind = "a part of the input"

    def __init__(self, whole: InputNode, key: int | str, by_attribute: bool) -> None:
        super().__init__()
        self._whole = whole
        self._key = key
        self._by_attribute = by_attribute
        whole._users[self] = None

    def __getitem__(self, key: object) -> object:
        raise TypeError(
            f"'InputAttributeNode' object is not subscriptable: {key!r} of a part of the input; take it apart in a method"
        )

    @property
    def key(self) -> int | str:
        """Index or name of the part."""
        return self._key

    def parents(self) -> list[DAGNode]:
        """The whole input."""
        return [self._whole]

    def call(self, results: Results) -> Any:
        """The part."""
        whole = results[self._whole]
        if self._by_attribute and not isinstance(whole, DAGInputData):
            return getattr(whole, str(self._key))
        return whole[self._key]

    def label(self) -> str:
        """Which part."""
        return repr(self._key)
