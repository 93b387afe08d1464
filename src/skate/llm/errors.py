"""Errors of requests and of engines."""

from __future__ import annotations


class LLMError(Exception):
    """Base class of the errors that engines raise."""


class BadRequest(LLMError, ValueError):
    """The request is invalid. `param` names the field that caused the error, if any."""

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
    """The model or adapter does not exist."""

    def __init__(self, model: str, known: tuple[str, ...] = ()) -> None:
        models = f"; the available models are {', '.join(known)}" if known else ""
        super().__init__(f"the model {model!r} does not exist{models}", "model")
        self._given = (model, known)

    def __reduce__(self) -> tuple[type[UnknownModel], tuple[str, tuple[str, ...]]]:  # type: ignore[override]
        return type(self), self._given


class NotSupported(BadRequest):
    """The engine does not support a field of OpenAI's API."""


class Overloaded(LLMError):
    """Too many requests are waiting; try again later."""


class EngineStopped(LLMError):
    """The engine has stopped or failed, and its requests receive no more tokens."""
