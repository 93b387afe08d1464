"""The request of one chat: params, messages for the template, and readers of the answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from skate.llm.engine import Engine, takes_media
from skate.llm.errors import BadRequest, NotSupported
from skate.llm.openai import request_checks
from skate.llm.openai.requests import ChatCompletionRequest
from skate.llm.output import Increment
from skate.llm.prompt_texts import Arranged
from skate.llm.sampling import SamplingParams
from skate.llm.tool_calls import conversation, parser, think_tags
from skate.llm.tool_calls.choice import ToolChoice, chosen
from skate.llm.tool_calls.forced_calls import NamedCallParser, RequiredCallsParser
from skate.llm.tool_calls.options import ToolOptions
from skate.llm.tool_calls.reader import AnswerReader, Fields, Reader
from skate.llm.tool_calls.schema import schema_of
from skate.llm.tool_calls.written import way_of

MakeReader = Callable[[Sequence[int]], Reader]
#: A tool that no template mentions by itself.
_PROBE = "skate_probe_of_this_template"
#: The end of a prompt that may contain the start tag of reasoning has at most this many tokens.
_TAG_TOKENS = 24


@dataclass
class ChatTurn:
    """One chat request.

    Args:
        params: the params for the engine.
        messages, template, options: the template's input; `template` replaces the model's if it is not None.
        arranged: see PromptTexts.chat.
        make_reader: returns the reader of an answer, given the tokens of the prompt; None if answers are plain text.
    """

    params: SamplingParams
    messages: list[dict[str, Any]]
    template: str | None
    options: dict[str, Any]
    arranged: Arranged | None = None
    make_reader: MakeReader | None = None
    _prompt: Sequence[int] = ()
    _readers: dict[int, Reader] = field(default_factory=dict)

    @property
    def reads(self) -> bool:
        """True if answers may contain more than plain text."""
        return self.make_reader is not None

    def begin(self, prompt: Sequence[int]) -> None:
        """Set the tokens of the prompt, before the first answer."""
        self._prompt = prompt

    def delta(self, new: Increment) -> Fields:
        """Return the delta of an increment."""
        return self._reader(new.index).delta(new)

    def message(self, index: int, text: str, tokens: Sequence[int]) -> Fields:
        """Return the fields of the message of a whole answer."""
        return self._reader(index).message(text, tokens) if self.reads else {"content": text}

    def finish_reason(self, new: Increment) -> str | None:
        """Return OpenAI's finish reason after an increment or a whole answer."""
        if not self.reads or new.finish_reason is None:
            return new.finish_reason
        return self._reader(new.index).finish_reason(new)

    def _reader(self, index: int) -> Reader:
        if index not in self._readers:
            assert self.make_reader is not None
            self._readers[index] = self.make_reader(self._prompt)
        return self._readers[index]


class ChatTurns:
    """Builds the turns of one model's requests. Raises ValueError for parsers that do not exist.

    An engine that has parsers of its own has the method `answer_parsers`, which takes the ToolOptions.
    """

    def __init__(self, engine: Engine, model: str, options: ToolOptions, trusts_templates: bool) -> None:
        self._engine = engine
        self._model = model
        self._options = options
        self._trusts_templates = trusts_templates
        self._renders: bool | None = None
        make = getattr(engine, "answer_parsers", None)
        self._own: Any = None if make is None else make(options)
        self._think = None
        self._calls: Any = None
        if make is None and options.reasoning_parser:
            self._think = think_tags.find(options.reasoning_parser)
        if make is None and options.tool_call_parser:
            self._calls = parser.find(options.tool_call_parser)

    def turn(self, request: ChatCompletionRequest) -> ChatTurn:
        """Return the turn of a request. Raises BadRequest."""
        params = request_checks.chat_params(request)
        choice = chosen(request.tools, request.tool_choice, request.parallel_tool_calls)
        options = request_checks.template_options(request, self._trusts_templates)
        for name in ("add_generation_prompt", "continue_final_message"):
            if getattr(request, name) is not None:
                options[name] = getattr(request, name)
        if choice.mode != "none" or not self._options.exclude_tools_when_tool_choice_none:
            if choice.tools:
                options["tools"] = [each.given for each in choice.tools]
        takes = self._engine.media if takes_media(self._engine) else frozenset()
        plain = request_checks.plain_messages(request.messages, request.model or self._model, takes)
        messages = conversation.checked(plain)
        turn = ChatTurn(params, messages, options.pop("chat_template", None), options)
        if turn.template is None and ("tools" in options or any("tool_calls" in each for each in messages)):
            turn.arranged = partial(self._arrange, choice)
        self._read(turn, choice, request)
        return turn

    def _read(self, turn: ChatTurn, choice: ToolChoice, request: ChatCompletionRequest) -> None:
        """Set what the answers of a turn need: constraints of the engine, and readers."""
        if choice.mode == "auto" and self._options.parser is None:
            raise BadRequest(
                "this model may not choose to call tools: tool_choice 'auto', the default with tools, requires "
                "enable_auto_tool_choice and tool_call_parser in its engine_kwargs; set tool_choice to 'required', to a "
                "tool, or to 'none'",
                "tool_choice",
            )
        extra = dict(turn.params.extra)
        if self._own is not None and self._own.reads(choice):
            changes, turn.make_reader = self._own.turn(request, choice)
            form = changes.pop("structured_outputs", None)
            extra = extra if form is None else {**extra, "structured_outputs": form}
            turn.params = replace(turn.params, **changes, extra=extra)
        elif choice.forced:
            # As with vLLM, a forced call takes precedence over the form of an answer.
            turn.params = replace(
                turn.params, extra={**extra, "structured_outputs": {"json": schema_of(choice)}}
            )
            turn.make_reader = partial(self._reader, choice, self._forced(choice))
        elif choice.mode == "auto":
            if "structured_outputs" in extra:
                raise NotSupported(
                    "a form of the answer (response_format or structured_outputs) together with tools that the model may "
                    "choose is not supported by this engine; set tool_choice to 'none' or 'required', or leave the form out",
                    "response_format",
                )
            if request.skip_special_tokens is None:  # the marks of calls are special tokens of many models
                turn.params = replace(turn.params, skip_special_tokens=False)
            turn.make_reader = partial(self._reader, choice, partial(self._calls, choice.schemas))
        elif self._think is not None:
            turn.make_reader = partial(self._reader, choice, None)

    def _forced(self, choice: ToolChoice) -> Callable[[], parser.ToolCallParser]:
        return RequiredCallsParser if choice.name is None else partial(NamedCallParser, choice.name)

    def _reader(
        self, choice: ToolChoice, calls: Callable[[], parser.ToolCallParser] | None, prompt: Sequence[int]
    ) -> Reader:
        """Return a reader; a forced call begins at once, so there is no reasoning before it."""
        think = None
        if self._think is not None and not choice.forced:
            think = self._think()
            think.follows(self._engine.text.decode(prompt[-_TAG_TOKENS:], False))
        return AnswerReader(
            choice,
            None if calls is None else calls(),
            think,
            short_ids=self._options.tool_call_parser == "mistral",
        )

    def _arrange(
        self, choice: ToolChoice, messages: Sequence[dict[str, Any]], options: dict[str, Any]
    ) -> tuple[Sequence[dict[str, Any]], dict[str, Any]]:
        """Describe tools in a message if the model's template does not."""
        if self._renders is None:
            self._renders = self._renders_tools()
        if self._renders:
            return messages, options
        way = way_of(None if choice.forced else self._options.parser)
        rest = {name: value for name, value in options.items() if name != "tools"}
        return conversation.told(messages, options.get("tools", ()), way), rest

    def _renders_tools(self) -> bool:
        """Return True unless the model's template ignores tools."""
        probe = {"type": "function", "function": {"name": _PROBE, "description": "", "parameters": {}}}
        try:
            return _PROBE in self._engine.text.chat([{"role": "user", "content": "Hi"}], tools=[probe])
        except BadRequest:  # the template's own error follows with the request's messages
            return True


async def of_tools(
    request: ChatCompletionRequest, found: AsyncGenerator[Any, None]
) -> AsyncGenerator[Any, None]:
    """Yield a response; if an engine rejects the constraint of forced calls, its error names the tools."""
    try:
        async with aclosing(found):
            async for each in found:
                yield each
    except BadRequest as error:
        if request.tool_choice in (None, "none", "auto") or error.param not in (None, "response_format"):
            raise
        raise BadRequest(f"tool_choice cannot be enforced: {error}", "tools") from error
