"""Middlewares around every application, named by the environment."""

from __future__ import annotations

import os
from typing import Any

from skate.serve.code.import_path import load

VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"


def called_for() -> list[Any]:
    """Return the middlewares from the function named by the environment variable, as `module:function`; empty if
    it is unset.

    Raises TypeError if the result is not a list of Starlette's `Middleware`.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return []
    found = load(path)()
    if not isinstance(found, list) or not all(hasattr(each, "cls") for each in found):
        raise TypeError(
            f"{VARIABLE}={path} must return a list of starlette.middleware.Middleware, got {found!r:.80}"
        )
    return found
