"""Text of audio by vLLM's own serving classes, which cut, transcribe and translate it."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import UploadFile

from skate.installed import require
from skate.llm.errors import BadRequest

_WHAT = "text of audio"
_PLACE = "vllm.entrypoints.speech_to_text"
#: For each task, vLLM's module, its classes of requests and of the server, and the server's method.
TASKS = {
    "transcribe": (
        "transcription",
        "TranscriptionRequest",
        "OpenAIServingTranscription",
        "create_transcription",
    ),
    "translate": ("translation", "TranslationRequest", "OpenAIServingTranslation", "create_translation"),
}


class VllmSpeech:
    """The audio of one model of vLLM.

    Args:
        engine: vLLM's engine, after its start, of a model that transcribes.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._servers: dict[tuple[str, str], Any] = {}

    async def text_of(
        self, task: str, audio: bytes, fields: dict[str, Any], model: str
    ) -> AsyncGenerator[str | dict[str, Any], None]:
        """Yield the response, or the events of a stream if `fields` request one. Raises BadRequest, or vLLM's errors.

        Args:
            task: "transcribe", or "translate" for English text.
            audio: the content of an audio file.
            fields: the other fields of the request, under vLLM's names, of which those that OpenAI has are the same.
            model: the model's name for clients.
        """
        module, request_class, _, method = TASKS[task]
        kind: Any = getattr(require(f"{_PLACE}.{module}.protocol", _WHAT, "vllm"), request_class)
        known = {field.alias or name for name, field in kind.model_fields.items()} - {"file", "model"}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise BadRequest(f"Unrecognized request argument: {unknown[0]}", unknown[0])
        try:
            asked = kind.model_validate({**fields, "model": model, "file": UploadFile(io.BytesIO())})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            raise BadRequest(f"Invalid value for {name}: {first['msg']}", name) from None
        found = await getattr(self._server(task, model), method)(audio, asked, None)
        if hasattr(found, "__aiter__"):
            async for event in found:
                yield event
            return
        refused = getattr(found, "error", None)
        if refused is not None:
            raise BadRequest(str(refused.message), getattr(refused, "param", None))
        yield found.model_dump()

    def _server(self, task: str, model: str) -> Any:
        if (task, model) not in self._servers:
            module, _, server, _ = TASKS[task]
            places = require("vllm.entrypoints.openai.models.protocol", _WHAT, "vllm")
            models = require("vllm.entrypoints.openai.models.serving", _WHAT, "vllm").OpenAIServingModels(
                self._engine, [places.BaseModelPath(name=model, model_path=model)]
            )
            kind = getattr(require(f"{_PLACE}.{module}.serving", _WHAT, "vllm"), server)
            self._servers[task, model] = kind(self._engine, models, request_logger=None)
        return self._servers[task, model]

    def close(self) -> None:
        """End the threads that read audio."""
        for each in self._servers.values():
            each.shutdown()
