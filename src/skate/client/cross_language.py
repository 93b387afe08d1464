"""Functions and classes of other languages: calls raise errors, because Skate supports only Python."""

from __future__ import annotations

import enum
from typing import Any


class Language(enum.Enum):
    """The languages in which Ray runs code; Skate runs Python."""

    PYTHON = 0
    JAVA = 1
    CPP = 2


def java_function(class_name: str, function_name: str) -> Any:
    """Raises NotImplementedError: Java functions cannot be called from here."""
    raise _refusal(f"the Java function {class_name}.{function_name}", "Java")


def java_actor_class(class_name: str) -> Any:
    """Raises NotImplementedError: Java classes cannot be actors here."""
    raise _refusal(f"the Java class {class_name}", "Java")


def cpp_function(function_name: str) -> Any:
    """Raises NotImplementedError: C++ functions cannot be called from here."""
    raise _refusal(f"the C++ function {function_name}", "C++")


def cpp_actor_class(create_function_name: str, class_name: str) -> Any:
    """Raises NotImplementedError: C++ classes cannot be actors here."""
    raise _refusal(f"the C++ class {class_name}", "C++")


def _refusal(what: str, language: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} cannot be used: Skate's workers run only Python; call {language} code through a Python binding "
        "(JPype, pybind11, ctypes) or a service, inside a Python task or actor"
    )
