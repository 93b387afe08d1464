"""JSON schemas of answers that must be calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.llm.tool_calls.choice import Tool, ToolChoice

#: Keywords whose values are schemas by name, and those whose values are data.
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})
#: Keywords whose schemas hold for the same object.
_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas"})
#: With these, further properties have names that the object's own schema does not list.
_OPEN = _COMBINED | {"$ref", "$dynamicRef", "patternProperties", "unevaluatedProperties"}
#: llguidance's options: whitespace as Python's json.dumps writes it, because a small model may write it without end.
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def schema_of(choice: ToolChoice) -> dict[str, Any]:
    """Return the schema of an answer: the arguments of a named tool, or else an array of calls."""
    if choice.mode == "named":
        (tool,) = (each for each in choice.tools if each.name == choice.name)
        return {**_parameters(tool), "x-guidance": _COMPACT}
    definitions: dict[str, Any] = {}
    calls = []
    for number, tool in enumerate(choice.tools):
        root = f"#/$defs/tool_{number}"
        parameters = _parameters(tool, root)
        if _has(
            parameters, "$ref"
        ):  # a pointer must have a place that does not depend on the array around it
            definitions[f"tool_{number}"] = parameters
            parameters = {"$ref": root}
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"enum": [tool.name]}, "parameters": parameters},
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    found: dict[str, Any] = {"type": "array", "items": {"anyOf": calls}, "minItems": 1}
    if not choice.parallel:
        found["maxItems"] = 1
    if definitions:
        found["$defs"] = definitions
    return {**found, "x-guidance": _COMPACT}


def _parameters(tool: Tool, root: str = "#") -> dict[str, Any]:
    given = {key: value for key, value in tool.parameters.items() if key not in ("$schema", "$id")}
    if not given:
        given = {"properties": {}}
    found: dict[str, Any] = _placed({"type": "object", **given}, root, not _has(given, "allOf"))
    return found


def _placed(schema: object, root: str, closes: bool) -> Any:
    """Return a schema with its pointers moved to a new root, and with objects closed that do not say whether they are.

    JSON schema lets objects have further properties. A model would invent them, and the functions behind tools do not
    accept them, so an object has only the named ones unless it says `additionalProperties`, as with vLLM. Schemas with
    `allOf` stay as they are, because there one object may have the properties of several.
    """
    if isinstance(schema, list):
        return [_placed(each, root, closes) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            found[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            found[key] = {name: _placed(each, root, closes) for name, each in value.items()}
        elif key == "$ref" and isinstance(value, str) and value.startswith("#"):
            found[key] = root + value[1:]
        else:
            alone = key in ("anyOf", "oneOf") and "properties" not in schema
            found[key] = _placed(value, root, closes and (alone or key not in _COMBINED))
    if closes and "properties" in found and not _OPEN & found.keys():
        found.setdefault("additionalProperties", False)
    return found


def _has(schema: object, key: str) -> bool:
    if isinstance(schema, list):
        return any(_has(each, key) for each in schema)
    if isinstance(schema, Mapping):
        return key in schema or any(_has(each, key) for each in schema.values())
    return False
