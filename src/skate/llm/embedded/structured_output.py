"""Constraints of answers: a JSON schema, a regular expression or a grammar. llguidance computes the allowed tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import torch

from skate.installed import is_installed, require
from skate.llm.errors import BadRequest, NotSupported

_FIELD = "response_format"
_KINDS = ("json", "json_object", "regex", "choice", "grammar")


class Forms:
    """Creates the constraints of one model's answers.

    Args:
        tokenizer: a fast tokenizer from transformers.
        vocabulary: the size of the model's vocabulary.
        ends: the tokens that end an answer.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._ends = sorted(ends)
        self._made: Any = None

    def load(self) -> None:
        """Read the tokenizer, which takes about a second for a large one. Raises NotSupported without llguidance."""
        if self._made is not None:
            return
        if not is_installed("llguidance"):
            raise NotSupported(
                "constrained answers of the embedded engine require llguidance, which is not installed on the "
                "server: install it with `pip install llguidance`, or use response_format text",
                _FIELD,
            )
        hf = require("llguidance.hf", "answers of a form", "llguidance")
        try:
            self._made = hf.from_tokenizer(self._tokenizer, self._vocabulary, self._ends or None)
        except ValueError as error:
            raise NotSupported(
                f"constrained answers are not supported with this model's tokenizer: {error}", _FIELD
            ) from error

    def form(self, constraints: dict[str, Any]) -> Form:
        """Return the constraint of one answer, given in vLLM's format. Raises BadRequest for an invalid one."""
        self.load()
        matcher_of = require("llguidance", "answers of a form").LLMatcher
        given = {name: value for name, value in constraints.items() if value not in (None, False)}
        if len(given) != 1 or not set(given) <= set(_KINDS):
            raise BadRequest(
                f"a constraint must be one of {', '.join(_KINDS)}, got {', '.join(given) or 'none'}", _FIELD
            )
        ((kind, value),) = given.items()
        if kind == "regex":
            grammar = matcher_of.grammar_from_regex(str(value))
        elif kind == "choice":
            grammar = matcher_of.grammar_from_regex("|".join(re.escape(str(each)) for each in value))
        elif kind == "grammar":
            grammar = matcher_of.grammar_from_lark(str(value))
        else:
            schema = {"type": "object"} if kind == "json_object" else value
            grammar = matcher_of.grammar_from_json_schema(
                schema if isinstance(schema, str) else json.dumps(schema)
            )
        matcher = matcher_of(self._made, grammar, log_level=0)
        if matcher.is_error():
            raise BadRequest(f"the constraint is invalid: {matcher.get_error().splitlines()[0]}", _FIELD)
        return Form(matcher)


class Form:
    """The progress of an answer through its constraint."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    @property
    def done(self) -> bool:
        """True if the answer is complete, so that no further token is allowed."""
        return bool(self._matcher.is_stopped())

    def bar(self, logits: torch.Tensor) -> None:
        """Set the logits of all tokens that are not allowed next to -inf."""
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        size = logits.shape[-1]
        logits[: allowed.shape[0]].masked_fill_(allowed[:size] == 0, -torch.inf)
        logits[allowed.shape[0] :] = -torch.inf

    def took(self, token: int) -> None:
        """Advance by a token."""
        self._matcher.consume_token(token)
