"""Calls as models write them, for templates that know no tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def _hermes(name: str, arguments: object) -> str:
    return f"<tool_call>\n{_json({'name': name, 'arguments': arguments})}\n</tool_call>"


def _llama3_json(name: str, arguments: object) -> str:
    return _json({"name": name, "parameters": arguments})


def _mistral(name: str, arguments: object) -> str:
    return f"[TOOL_CALLS][{_json({'name': name, 'arguments': arguments})}]"


def _pythonic(name: str, arguments: object) -> str:
    given = arguments if isinstance(arguments, Mapping) else {}
    return f"[{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})]"


def _qwen3_coder(name: str, arguments: object) -> str:
    given = arguments if isinstance(arguments, Mapping) else {}
    texts = {key: value if isinstance(value, str) else _json(value) for key, value in given.items()}
    parameters = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in texts.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def _array(name: str, arguments: object) -> str:
    return f"[{_json({'name': name, 'parameters': arguments})}]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_WAYS: dict[str, Callable[[str, Any], str]] = {
    "hermes": _hermes,
    "llama3_json": _llama3_json,
    "llama4_json": _llama3_json,
    "llama4_pythonic": _pythonic,
    "mistral": _mistral,
    "pythonic": _pythonic,
    "qwen3_coder": _qwen3_coder,
    "qwen3_xml": _qwen3_coder,
}


def way_of(parser: str | None) -> Callable[[str, Any], str]:
    """Return a function that writes a call from its name and arguments for a parser, or as forced answers have it."""
    return _array if parser is None else _WAYS.get(parser, _hermes)
