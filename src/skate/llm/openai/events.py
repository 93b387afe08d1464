"""Server-sent events of a stream. The constant part is formatted once, so a token costs one json.dumps of its text."""

from __future__ import annotations

import json
import time
from typing import Any

DONE = "data: [DONE]\n\n"


class Events:
    """The events of one request.

    Args:
        kind: "chat.completion.chunk" or "text_completion".
        usage: True if a last event reports the token counts; all other events then have a null usage.
    """

    def __init__(self, kind: str, request_id: str, model: str, usage: bool) -> None:
        head = {"id": request_id, "object": kind, "created": int(time.time()), "model": model}
        self._head = "data: " + json.dumps(head)[:-1] + ', "choices": '
        self._tail = ', "usage": null}\n\n' if usage else "}\n\n"
        self._chat = kind == "chat.completion.chunk"

    def first(self, index: int) -> str:
        """Format the first event, with the role."""
        return self._choice(index, '{"role": "assistant", "content": ""}', None, None, None)

    def text(
        self,
        index: int,
        text: str,
        logprobs: dict[str, Any] | None,
        finish: str | None,
        stop: str | int | None,
    ) -> str:
        """Format an event with new text of an answer, and its end if it has a finish reason."""
        content = json.dumps(text)
        if self._chat:
            content = '{"content": ' + content + "}" if text or finish is None else "{}"
        return self._choice(index, content, logprobs, finish, stop)

    def delta(
        self,
        index: int,
        delta: dict[str, Any],
        logprobs: dict[str, Any] | None,
        finish: str | None,
        stop: str | int | None,
    ) -> str:
        """Format an event with any delta of a chat."""
        return self._choice(index, json.dumps(delta), logprobs, finish, stop)

    def usage(self, usage: dict[str, int]) -> str:
        """Format the event with the token counts."""
        return self._head + '[], "usage": ' + json.dumps(usage) + "}\n\n"

    def _choice(
        self,
        index: int,
        content: str,
        logprobs: dict[str, Any] | None,
        finish: str | None,
        stop: str | int | None,
    ) -> str:
        field = "delta" if self._chat else "text"
        logs = "null" if logprobs is None else json.dumps(logprobs)
        end = "null" if finish is None else json.dumps(finish)
        reason = "" if stop is None else ', "stop_reason": ' + json.dumps(stop)
        return (
            f'{self._head}[{{"index": {index}, "{field}": {content}, "logprobs": {logs}, "finish_reason": {end}{reason}}}]'
            + self._tail
        )
