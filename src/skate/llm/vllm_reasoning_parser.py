"""vLLM's reasoning parsers, which tell the reasoning of an answer from its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from skate.installed import require


def reader(name: str, tokenizer: object) -> Callable[[], ParsedReasoning]:
    """Return a function that makes readers. Raises an error if vLLM has no such parser or the tokenizer does not fit."""
    kinds = require("vllm.reasoning", "the reasoning parsers of vLLM", "vllm")
    parser = kinds.ReasoningParserManager.get_reasoning_parser(name)
    parser(tokenizer)
    return lambda: ParsedReasoning(parser(tokenizer))


class Parser(Protocol):
    """The part of vLLM's parsers that is used."""

    def extract_reasoning(self, text: str, request: None, /) -> tuple[str | None, str | None]:
        """Return the reasoning and the content of a whole answer."""

    def extract_reasoning_streaming(
        self,
        before: str,
        after: str,
        new: str,
        before_tokens: list[int],
        after_tokens: list[int],
        new_tokens: list[int],
        /,
    ) -> object:
        """Return an object with the reasoning and the content of new text, or None."""


class ParsedReasoning:
    """Reads one answer with a parser of vLLM."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._text = ""
        self._tokens: list[int] = []
        self.begun = False

    def read(self, text: str, tokens: Sequence[int], whole: bool) -> tuple[str, str]:
        """Return the reasoning and the content of new text; `whole` is True if it is the whole answer."""
        if whole:
            reasoning, content = self._parser.extract_reasoning(text, None)
            return reasoning or "", content or ""
        before, before_tokens = self._text, list(self._tokens)
        self.begun = True
        self._text += text
        self._tokens += tokens
        found = self._parser.extract_reasoning_streaming(
            before, self._text, text, before_tokens, list(self._tokens), list(tokens)
        )
        if found is None:
            return "", ""
        reasoning, content = (getattr(found, name, None) or "" for name in ("reasoning", "content"))
        if not before:
            # Some parsers expect the start mark to arrive alone, but the first increment may have several tokens.
            reasoning = reasoning.removeprefix(getattr(self._parser, "reasoning_start_str", None) or "")
        return reasoning, content
