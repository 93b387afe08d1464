"""Errors of requests and engines, by whose fault they are."""

from __future__ import annotations


class LLMError(Exception):
    """Base of what engines raise."""


class BadRequest(LLMError, ValueError):
    """The caller asked for something that does not go. `param` names the field that is at fault, if one is."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    def __reduce__(self) -> tuple[type[BadRequest], tuple[str, str | None]]:
        return type(self), (str(self), self.param)


class PromptTooLong(BadRequest):
    """The prompt and the tokens to generate exceed the model's context."""

    def __init__(self, prompt: int, limit: int, wanted: int = 0, at_least: bool = False) -> None:
        least = "at least " if at_least else ""
        more = f" and max_tokens={wanted}" if wanted else ""
        super().__init__(
            f"this model's context is {limit} tokens, but the prompt has {least}{prompt}{more}; "
            "shorten the prompt or request fewer tokens",
            "messages" if not wanted else "max_tokens",
        )
        self._given = (prompt, limit, wanted, at_least)

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[int, int, int, bool]]:  # type: ignore[override]
        return type(self), self._given


class UnknownModel(BadRequest):
    """No such model, or adapter of it."""

    def __init__(self, model: str, known: tuple[str, ...] = ()) -> None:
        there = f"; there is {', '.join(known)}" if known else ""
        super().__init__(f"the model {model!r} does not exist{there}", "model")
        self._given = (model, known)

    def __reduce__(self) -> tuple[type[UnknownModel], tuple[str, tuple[str, ...]]]:  # type: ignore[override]
        return type(self), self._given


class NotSupported(BadRequest):
    """A field of OpenAI's that this engine does not do."""


class Overloaded(LLMError):
    """More requests wait than the engine takes; try again later."""


class EngineStopped(LLMError):
    """The engine has stopped or failed; its requests get no more tokens."""
