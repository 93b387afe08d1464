"""The options of a model's tools and reasoning, which `engine_kwargs` has under vLLM's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class ToolOptions:
    """The options of a model.

    Args:
        enable_auto_tool_choice: True if the model may choose to call tools; requires `tool_call_parser`.
        tool_call_parser: the name of the parser of the calls that the model writes.
        exclude_tools_when_tool_choice_none: True if the model is not told of tools that it must not call.
        reasoning_parser: the name of the parser of the model's reasoning.
    """

    enable_auto_tool_choice: bool = False
    tool_call_parser: str | None = None
    exclude_tools_when_tool_choice_none: bool = False
    reasoning_parser: str | None = None

    def __post_init__(self) -> None:
        if self.enable_auto_tool_choice and not self.tool_call_parser:
            raise ValueError(
                "enable_auto_tool_choice of engine_kwargs requires tool_call_parser, the name of the format in which the "
                "model writes calls, such as hermes or llama3_json"
            )

    @classmethod
    def of(cls, kwargs: Mapping[str, Any]) -> ToolOptions:
        """Read the options among an engine's arguments."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: kwargs[name] for name in names if kwargs.get(name) is not None})

    @property
    def parser(self) -> str | None:
        """The parser of calls that the model chooses to write; None if it may not."""
        return self.tool_call_parser if self.enable_auto_tool_choice else None


#: Options that are no arguments of vLLM's engine.
NOT_OF_ENGINES = ("enable_auto_tool_choice", "tool_call_parser", "exclude_tools_when_tool_choice_none")
