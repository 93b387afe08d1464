"""Annotations of API stability: public, for developers of libraries, or deprecated."""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Callable
from typing import Any

from skate.client.deprecation import RayDeprecationWarning as RayDeprecationWarning


class AnnotationType(enum.Enum):
    """How stable an annotated object is."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


def PublicAPI(*args: Any, stability: str = "stable", api_group: str = "Others") -> Any:
    """Mark a function or a class as public; usable bare or with arguments.

    Args:
        stability: "stable", "beta" or "alpha".
        api_group: heading under which documentation lists it.

    Raises:
        ValueError: `stability` is none of the three.
    """
    if stability not in ("stable", "beta", "alpha"):
        raise ValueError(f'stability must be "stable", "beta" or "alpha", not {stability!r}')

    def mark(obj: Any) -> Any:
        if stability != "stable":
            _add_to_doc(obj, f"Public, in {stability}: it may still change.")
        return _mark(obj, AnnotationType.PUBLIC_API, api_group)

    return mark(args[0]) if args else mark


def DeveloperAPI(*args: Any) -> Any:
    """Mark a function or a class as meant for developers of libraries; usable bare or called."""

    def mark(obj: Any) -> Any:
        _add_to_doc(obj, "For developers of libraries: it may change between minor releases.")
        return _mark(obj, AnnotationType.DEVELOPER_API)

    return mark(args[0]) if args else mark


def Deprecated(*args: Any, message: str | None = None, warning: bool = False) -> Any:
    """Mark a function or a class as deprecated; usable bare or with arguments.

    Args:
        message: why, and what to use instead.
        warning: also warn with RayDeprecationWarning whenever it is used.
    """
    text = "Deprecated: it may be removed in a later release."
    if message:
        text = f"{text} {message}"

    def mark(obj: Any) -> Any:
        _add_to_doc(obj, text)
        marked = _mark(obj, AnnotationType.DEPRECATED)
        return _warning_on_use(marked, text) if warning else marked

    return mark(args[0]) if args else mark


def _warning_on_use(obj: Any, text: str) -> Any:
    is_class = isinstance(obj, type)
    called: Callable[..., Any] = obj.__init__ if is_class else obj

    @functools.wraps(called)
    def warn_first(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"{obj.__qualname__}: {text}", RayDeprecationWarning, stacklevel=2)
        return called(*args, **kwargs)

    if not is_class:
        return warn_first
    obj.__init__ = warn_first
    return obj


def _add_to_doc(obj: Any, text: str) -> None:
    obj.__doc__ = f"{(obj.__doc__ or '').rstrip()}\n\n{text}\n".lstrip("\n")


def _mark(obj: Any, kind: AnnotationType, api_group: str = "Others") -> Any:
    # Properties and other objects without a name take no further attributes.
    if hasattr(obj, "__name__"):
        obj._annotated = obj.__name__
        obj._annotated_type = kind
        obj._annotated_api_group = api_group
    return obj
