"""Disaggregated prefill and decode: one replica computes the prompt's keys, another fetches them and generates.

A request goes to the decode deployment. It first requests one token from the prefill deployment, with parameters
for a transfer of the keys. The response has the location of the keys, which it passes to its own engine with the
request. The engine transfers them (`kv_transfer_config` of vLLM).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from skate.llm.openai.requests import ChatCompletionRequest, CompletionRequest
from skate.llm.openai.responses import ErrorResponse
from skate.serve.llm.configs import LLMConfig
from skate.serve.llm.raw_request import RawRequestInfo
from skate.serve.llm.server import LLMServer

#: The parameters with which vLLM keeps a prompt's keys for another engine.
HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


def for_prefill(request: Any) -> Any:
    """Return a request that only computes the prompt."""
    only = {"stream": False, "stream_options": None, "max_tokens": 1, "n": 1, "min_tokens": None}
    if isinstance(request, ChatCompletionRequest):
        only["max_completion_tokens"] = None
    return request.model_copy(update={**only, "kv_transfer_params": dict(HAND_OVER)})


class PDPrefillServer(LLMServer):
    """A replica that computes prompts."""


class PDDecodeServer(LLMServer):
    """A replica that generates answers to prompts computed by other replicas.

    Args:
        prefill_server: the handle of the deployment that computes prompts.
    """

    async def __init__(  # type: ignore[misc]
        self,
        llm_config: LLMConfig,
        *,
        prefill_server: Any,
        engine_cls: Any = None,
        model_downloader: Any = None,
    ) -> None:
        await super().__init__(llm_config, engine_cls=engine_cls, model_downloader=model_downloader)
        self._prefill = prefill_server.options(stream=True)

    async def chat(
        self, request: ChatCompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Answer a chat request."""
        async with aclosing(self._both("chat", request, raw_request_info)) as found:
            async for each in found:
                yield each

    async def completions(
        self, request: CompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Answer a completion request."""
        async with aclosing(self._both("completions", request, raw_request_info)) as found:
            async for each in found:
                yield each

    async def _both(self, method: str, request: Any, raw: RawRequestInfo | None) -> AsyncGenerator[Any, None]:
        keys = None
        async for answer in getattr(self._prefill, method).remote(for_prefill(request)):
            if isinstance(answer, ErrorResponse):
                yield answer
                return
            keys = getattr(answer, "kv_transfer_params", None) or keys
        request = request.model_copy(update={"kv_transfer_params": keys})
        async with aclosing(getattr(super(), method)(request, raw)) as found:
            async for each in found:
                yield each
