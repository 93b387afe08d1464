"""Errors in OpenAI's format, with OpenAI's HTTP status for each."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pydantic import ValidationError

from skate.llm.errors import BadRequest, EngineStopped, Overloaded, PromptTooLong, UnknownModel
from skate.llm.openai.responses import ErrorInfo, ErrorResponse

_log = logging.getLogger("skate.llm")


def response(
    status: int, message: str, type: str = "invalid_request_error", param: str | None = None, code: Any = None
) -> ErrorResponse:
    """Build an error response."""
    return ErrorResponse(error=ErrorInfo(message=message, type=type, param=param, code=code), status=status)


def of(error: BaseException) -> ErrorResponse:
    """Return the response for an exception. Unexpected exceptions are logged, and their details hidden."""
    if isinstance(error, UnknownModel):
        return response(404, str(error), param="model", code="model_not_found")
    if isinstance(error, PromptTooLong):
        return response(400, str(error), param=error.param, code="context_length_exceeded")
    if isinstance(error, ValidationError):
        return _invalid(error)
    if isinstance(error, BadRequest):
        return response(400, str(error), param=error.param)
    if isinstance(error, Overloaded):
        return response(429, str(error), "rate_limit_error", code="rate_limit_exceeded")
    if isinstance(error, EngineStopped):
        return response(503, str(error), "server_error", code="engine_stopped")
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return response(504, "the model did not answer in time", "server_error", code="timeout")
    _log.error("a request failed", exc_info=error)
    return response(500, "the server had an error while processing the request", "server_error")


def _invalid(error: ValidationError) -> ErrorResponse:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    param = where[0] if where else None
    if first["type"] == "extra_forbidden":
        return response(
            400, f"Unrecognized request argument: {'.'.join(where)}", param=param, code="unknown_parameter"
        )
    if first["type"] == "missing":
        return response(
            400, f"Missing required parameter: {param}", param=param, code="missing_required_parameter"
        )
    return response(
        400, f"Invalid value for {'.'.join(where)}: {first['msg']}", param=param, code="invalid_value"
    )
