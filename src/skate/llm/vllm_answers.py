"""vLLM's own parsers of calls and reasoning, for answers of vLLM: all that it has, with its constraints of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from skate.installed import require
from skate.llm.output import Increment
from skate.llm.tool_calls.choice import ToolChoice
from skate.llm.tool_calls.options import ToolOptions
from skate.llm.tool_calls.reader import Fields

#: The fields of a request that vLLM's parsers read.
_READ = {
    "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "structured_outputs",
    "skip_special_tokens", "chat_template_kwargs", "reasoning_effort",
}  # fmt: skip
_WHAT = "the parsers of vLLM"


class VllmAnswers:
    """The parsers of one model. Raises ValueError for a parser that vLLM does not have.

    Args:
        options: the names of the parsers.
        tokenizer: the model's tokenizer.
        model: the model's name.
        model_config: vLLM's configuration of the model.
    """

    def __init__(
        self, options: ToolOptions, tokenizer: Callable[[], Any], model: str, model_config: Any
    ) -> None:
        self._options = options
        self._tokenizer = tokenizer
        self._model_config = model_config
        self._kind: Any = None
        if options.parser is None and options.reasoning_parser is None:
            return
        manager = require("vllm.parser", _WHAT, "vllm").ParserManager
        try:
            self._kind = manager.get_parser(
                tool_parser_name=options.parser,
                reasoning_parser_name=options.reasoning_parser,
                enable_auto_tools=options.enable_auto_tool_choice,
                model_name=model,
                is_harmony=getattr(model_config.hf_config, "model_type", None) == "gpt_oss",
                tokenizer=tokenizer(),
            )
        except TypeError as error:
            raise ValueError(f"tool_call_parser or reasoning_parser of engine_kwargs: {error}") from error

    def reads(self, choice: ToolChoice) -> bool:
        """Return True if vLLM reads the answers. It reads forced calls only if it has a parser of calls."""
        return self._kind is not None and (self._options.parser is not None or not choice.forced)

    def turn(
        self, request: Any, choice: ToolChoice
    ) -> tuple[dict[str, Any], Callable[[Sequence[int]], VllmReader]]:
        """Return the changes of the engine's params, and a function that returns the reader of an answer."""
        protocol = require("vllm.entrypoints.openai.chat_completion.protocol", _WHAT, "vllm")
        given = request.model_dump(exclude_none=True, include=_READ)
        if choice.forced:
            given["tools"] = [_held(each) for each in given["tools"]]
        asked = protocol.ChatCompletionRequest.model_validate({**given, "model": request.model})
        asked = self._parser(asked).adjust_request(asked)
        changes: dict[str, Any] = {"skip_special_tokens": asked.skip_special_tokens}
        form = asked.extract_structured_outputs()
        if form is not None:
            values = {each.name: getattr(form, each.name) for each in fields(form) if each.init}
            constraints = {name: value for name, value in values.items() if value not in (None, False)}
            changes["structured_outputs"] = constraints
        return changes, partial(self._reader, asked, choice)

    def _parser(self, asked: Any) -> Any:
        return self._kind(
            self._tokenizer(),
            asked.tools,
            chat_template_kwargs=asked.chat_template_kwargs or {},
            model_config=self._model_config,
        )

    def _reader(self, asked: Any, choice: ToolChoice, prompt: Sequence[int]) -> VllmReader:
        return VllmReader(self._parser(asked), asked, choice, list(prompt))


def _held(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool whose calls vLLM holds to its schema, unless the client says otherwise.

    Since 0.32, a forced call in a format that vLLM knows (hermes is one) has free arguments without `strict`.
    """
    return {**tool, "function": {"strict": True, **tool["function"]}}


class VllmReader:
    """Reads one answer with a parser of vLLM."""

    def __init__(self, parser: Any, asked: Any, choice: ToolChoice, prompt: list[int]) -> None:
        self._parser = parser
        self._asked = asked
        self._choice = choice
        self._prompt = prompt
        self._called = False

    def delta(self, new: Increment) -> Fields:
        """Return the delta of an increment."""
        found = self._parser.parse_delta(
            new.text,
            list(new.token_ids),
            self._asked,
            self._prompt,
            finished=new.finish_reason is not None,
        )
        if found is None:
            return {}
        calls = [each.model_dump(exclude_none=True) for each in found.tool_calls or ()]
        calls = [each for each in calls if self._choice.parallel or each["index"] == 0]
        return self._fields(found.content or None, found.reasoning, calls)

    def message(self, text: str, tokens: Sequence[int]) -> Fields:
        """Return the fields of the message of a whole answer."""
        new_id = require("vllm.renderers.chat_utils", _WHAT, "vllm").make_tool_call_id
        reasoning, content, found = self._parser.parse(
            text, self._asked, enable_auto_tools=True, model_output_token_ids=tokens
        )
        calls = [
            {
                "id": each.id or new_id(),
                "type": "function",
                "function": {"name": each.name, "arguments": each.arguments},
            }
            for each in found or ()
        ]
        calls = calls if self._choice.parallel else calls[:1]
        message = self._fields(content or None, reasoning, calls)
        if "content" not in message and not calls and not self._choice.forced:
            message["content"] = content or ""
        return message

    def finish_reason(self, end: Increment) -> str | None:
        """Return "tool_calls" for an answer that ended with calls which the model chose."""
        if self._called and end.finish_reason == "stop" and self._choice.mode != "named":
            return "tool_calls"
        return end.finish_reason

    def _fields(self, content: str | None, reasoning: str | None, calls: list[dict[str, Any]]) -> Fields:
        found: Fields = {}
        if content:
            found["content"] = content
        if reasoning:
            found["reasoning"] = found["reasoning_content"] = reasoning
        if calls:
            self._called = True
            found["tool_calls"] = calls
        return found
