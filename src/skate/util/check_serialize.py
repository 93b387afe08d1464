"""Show why a value cannot be sent to a task or an actor."""

from __future__ import annotations

from typing import IO, Any

from skate.wire.culprit import describe, find_culprits, own_name


class FailureTuple:
    """A value that cannot be serialized, found inside another.

    Attributes:
        obj: the value.
        path: names from the inspected value down to it.
        parent: the value that holds it, or None if it is the inspected value itself.
    """

    def __init__(self, obj: Any, path: tuple[str, ...], parent: Any) -> None:
        self.obj = obj
        self.path = path
        self.parent = parent

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path[-1]

    def __repr__(self) -> str:
        return f"FailTuple({self.name} [path={' -> '.join(self.path)}, obj={self.obj}, parent={self.parent}])"


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: IO[str] | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Find what inside a value keeps it from being serialized, and print it.

    Args:
        base_obj: the value to inspect: a function, a class or anything else.
        name: the name to show; by default its own name.
        depth: the most levels to descend.
        print_file: the output file; standard output by default.

    Returns:
        True if the value can be serialized, and the values inside it that cannot.
    """
    shown = name or own_name(base_obj)
    if shown == type(base_obj).__name__:
        shown = f"{shown} {base_obj!r:.60}"
    culprits = find_culprits(base_obj, shown, depth=depth)
    print(describe(culprits, shown), file=print_file)
    return not culprits, {FailureTuple(each.obj, each.names, each.parent) for each in culprits}


__all__ = ["FailureTuple", "inspect_serializability"]
