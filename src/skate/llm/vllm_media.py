"""Conversations with images, audio or video as prompts of vLLM, by vLLM's own renderer."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

from skate.installed import require
from skate.llm import media
from skate.llm.errors import BadRequest
from skate.llm.media import MediaPrompt

_WHAT = "media in messages"
#: vLLM's environment variable for redirects of URLs, which may lead to hosts that were not allowed.
_REDIRECTS = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
_UNREADABLE = (NotImplementedError, OSError, RuntimeError, EOFError, pickle.UnpicklingError)


class VllmMedia:
    """The renderer of one model of vLLM.

    Args:
        engine: vLLM's engine, after its start.
    """

    def __init__(self, engine: Any) -> None:
        self._renderer: Any = getattr(engine, "renderer", None)
        self._config: Any = getattr(engine, "model_config", None)
        processor = getattr(self._renderer, "mm_processor", None)
        #: The kinds of media that the model takes.
        self.kinds = _kinds(() if processor is None else processor.info.supported_mm_limits)
        if self.kinds and getattr(self._config, "allowed_media_domains", None):
            os.environ.setdefault(_REDIRECTS, "0")

    async def render(
        self, messages: Sequence[dict[str, Any]], template: str | None, options: dict[str, Any]
    ) -> list[int]:
        """Return the tokens of a conversation, as MediaPrompt if it has media. Raises BadRequest, or vLLM's errors.

        Args:
            messages: the messages, with checked parts.
            template: a chat template to use instead of the model's.
            options: the template's arguments.
        """
        config = self._config
        media.check_sources(messages, config.allowed_media_domains, config.allowed_local_media_path)
        params = require("vllm.renderers", _WHAT, "vllm")
        is_mistral = require("vllm.utils.mistral", _WHAT, "vllm").is_mistral_tokenizer
        chat = params.ChatParams(
            chat_template=template,
            chat_template_kwargs={
                "add_generation_prompt": not options.get("continue_final_message"),
                "tokenize": is_mistral(self._renderer.tokenizer) or config.enable_prompt_embeds,
                **options,
            },
            media_io_kwargs=config.multimodal_config.media_io_kwargs,
        )
        tokens = params.TokenizeParams(max_total_tokens=config.max_model_len, add_special_tokens=False)
        try:
            _, (rendered,) = await self._renderer.render_chat_async([list(messages)], chat, tokens)
        except Exception as error:  # aiohttp, whose errors some are, is imported only by vLLM
            # Broken data, a file that is not there, or a host that does not answer; others are raised again.
            if isinstance(error, _UNREADABLE) or _is_of_http(error):
                raise BadRequest(f"the media of messages cannot be read: {error}", "messages") from error
            raise
        found = rendered.get("prompt_token_ids")
        if found is None:
            raise BadRequest("this model does not answer conversations", "messages")
        return MediaPrompt(found, rendered) if rendered.get("type") == "multimodal" else list(found)


def _kinds(names: Iterable[str]) -> frozenset[str]:
    """Return the kinds of media of vLLM's modalities; a model may see videos and images as the same one."""
    found = set(names)
    if "vision_chunk" in found:
        found |= {"image", "video"}
    return frozenset(found & set(media.KINDS.values()))


def _is_of_http(error: Exception) -> bool:
    """Return True for an error of aiohttp, which only vLLM needs."""
    return any(each.__name__ == "ClientError" for each in type(error).__mro__)
