"""Names of `ray._common.deprecation`: marks and warnings of what is going to be removed."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

#: Stands for an argument that was not given, where None is a value.
DEPRECATED_VALUE = -1


def deprecation_warning(
    old: str, new: str | None = None, *, help: str | None = None, error: bool | type[Exception] = False
) -> None:
    """Log that something is deprecated, or raise.

    Args:
        old: Its name.
        new: The name to use instead.
        help: Further advice, in place of the new name.
        error: True to raise ValueError, or the exception to raise.
    """
    advice = f" {help}" if help else f" Use {new} instead." if new else ""
    text = f"{old} is deprecated.{advice}"
    if error:
        raise (ValueError if error is True else error)(text)
    logger.warning("%s", text)


def Deprecated(
    old: str | None = None,
    *,
    new: str | None = None,
    help: str | None = None,
    error: bool | type[Exception] = False,
) -> Callable[[Any], Any]:
    """Mark a function, a method or a class, whose use then calls `deprecation_warning`.

    Args:
        old: Its name; default the one that it has.
        new: The name to use instead.
        help: Further advice.
        error: True to raise ValueError on use, or the exception to raise.
    """

    def mark(marked: Any) -> Any:
        called: Any = getattr(marked, "__init__") if isinstance(marked, type) else marked  # noqa: B009

        @functools.wraps(called)
        def warn_first(*args: Any, **kwargs: Any) -> Any:
            deprecation_warning(old or marked.__qualname__, new, help=help, error=error)
            return called(*args, **kwargs)

        if not isinstance(marked, type):
            return warn_first
        setattr(marked, "__init__", warn_first)  # noqa: B010  mypy does not let a method be replaced
        return marked

    return mark
