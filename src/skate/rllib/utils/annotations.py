"""Decorators that programs mark their classes and methods with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Marked = TypeVar("Marked")


def override(parent_cls: Any) -> Callable[[Marked], Marked]:
    """Mark a method that overrides one of a base class.

    Args:
        parent_cls: the base class.

    Raises:
        NameError: the base class has no such method.
    """

    def check(method: Marked) -> Marked:
        name = getattr(method, "__name__", "")
        known = getattr(parent_cls, "overrides_are_unknown", False) or name in dir(parent_cls)
        if name and not known:
            raise NameError(f"{name} does not override any method of {parent_cls}")
        return method

    return check


def _mark(marked: Marked) -> Marked:
    """Return what is marked."""
    return marked


def OverrideToImplementCustomLogic(obj: Marked) -> Marked:  # noqa: N802  (the name is Ray's)
    """Mark a method that subclasses override.

    Args:
        obj: the method.
    """
    obj.__is_overridden__ = False  # type: ignore[attr-defined]  # read by is_overridden
    return obj


def is_overridden(obj: Callable[..., Any]) -> bool:
    """True if a method is not the marked one of its base class.

    Args:
        obj: the method.
    """
    return bool(getattr(obj, "__is_overridden__", True))


PublicAPI = DeveloperAPI = ExperimentalAPI = OldAPIStack = _mark
OverrideToImplementCustomLogic_CallToSuperRecommended = OverrideToImplementCustomLogic
