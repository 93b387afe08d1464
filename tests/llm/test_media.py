"""Media in messages: what is checked before an engine sees it, and how it reaches an engine that takes it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import types
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from skate.llm.errors import BadRequest, NotSupported
from skate.llm.media import KINDS, MediaPrompt, check_part, check_sources
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from skate.llm.openai.requests import ChatCompletionRequest
from skate.llm.output import Increment, ModelInfo
from skate.llm.sampling import SamplingParams
from skate.llm.vllm_media import VllmMedia
from skate.serve.llm.affinity import text_of
from tests.llm.served import Served

DATA = "data:image/png;base64,AAAA"
IMAGE = {"type": "image_url", "image_url": {"url": DATA}}


@pytest.mark.parametrize(
    ("part", "match"),
    [
        ({"type": "input_image"}, "'input_image', but must be text, image_url, image_embeds"),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            "takes only text, image; .* audio",
        ),
        ({"type": "image_url"}, "needs image_url.url"),
        ({"type": "image_url", "image_url": DATA}, "needs image_url.url"),
        ({"type": "image_url", "image_url": {"url": 5}}, "needs image_url.url"),
        ({"type": "image_embeds", "image_embeds": {"a": 5}}, "needs image_embeds"),
        ({**IMAGE, "uuid": "mine"}, r"content\[1\].uuid is not supported"),
    ],
)
def test_parts_that_do_not_go_are_named(part: dict[str, Any], match: str) -> None:
    with pytest.raises(BadRequest, match=match) as found:
        check_part(part, "messages[0].content[1]", "m", {"image"})
    assert found.value.param == "messages" and "messages[0].content[1]" in str(found.value)


def test_parts_of_each_type_go_to_a_model_that_takes_them() -> None:
    audio = {"data": "AA", "format": "wav"}
    for name, kind in KINDS.items():
        field: Any = audio if name == "input_audio" else {"url": DATA} if name.endswith("_url") else "AAAA"
        check_part({"type": name, name: field}, "here", "m", {kind})
        with pytest.raises(NotSupported, match="the model 'm' takes only text"):
            check_part({"type": name, name: field}, "here", "m", ())


@pytest.mark.parametrize(
    ("url", "domains", "folder", "match"),
    [
        (DATA, None, None, None),
        ("DATA:image/png;base64,AAAA", None, None, None),
        ("http://169.254.169.254/latest", None, None, "allowed_media_domains"),
        ("HTTPS://a.example/b.png", [], "/tmp", "allowed_media_domains"),
        ("https://a.example/b.png", ["a.example"], None, None),
        ("file:///etc/passwd", ["a.example"], "", "allowed_local_media_path"),
        ("file:///srv/a.png", None, "/srv", None),
        ("ftp://a.example/b.png", ["a.example"], "/srv", "must have a data:, https:"),
        (" http://a.example", ["a.example"], "/srv", "must have a data:"),
        ("/etc/passwd", None, "/srv", "must have a data:"),
    ],
)
def test_only_allowed_sources_are_read(
    url: str, domains: list[str] | None, folder: str | None, match: str | None
) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    messages = [{"role": "user", "content": "Hi"}, {"role": "user", "content": [{"type": "text"}, part]}]
    if match is None:
        check_sources(messages, domains, folder)
        return
    with pytest.raises(BadRequest, match=match) as found:
        check_sources(messages, domains, folder)
    assert "messages[1].content[1]" in str(found.value)


class SeesImages:
    """An engine that reads a conversation as one token for each message, and answers with what it got."""

    media = frozenset({"image"})
    text = SimpleNamespace(decode=lambda tokens, skip=True: "", longest_token=None)

    def __init__(self) -> None:
        self.rendered: Any = None

    async def render(self, messages: Sequence[Any], template: Any, options: dict[str, Any]) -> list[int]:
        self.rendered = messages, template, options
        has_media = any(isinstance(each["content"], list) for each in messages)
        return MediaPrompt([7] * len(messages), "an image") if has_media else [7] * len(messages)

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, adapter: Any = None, every_s: float = 0
    ) -> AsyncIterator[Increment]:
        seen = getattr(prompt, "rendered", "no image")
        yield Increment(0, f"{seen} in {len(prompt)}", [1], finish_reason="stop", completion_tokens=1)

    def info(self) -> ModelInfo:
        return ModelInfo("m", "test", 16, 1, 10)


def test_an_engine_that_takes_images_renders_all_conversations() -> None:
    engine: Any = SeesImages()
    served = Served(build_app(LocalModels([ModelService(engine, "m")])))
    try:
        texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        system = {"role": "developer", "content": texts}
        body: dict[str, Any] = {"messages": [system, {"role": "user", "content": [*texts, IMAGE]}]}

        def answer(**more: Any) -> Any:
            return httpx.post(f"{served.url}/v1/chat/completions", json={"model": "m", **body, **more}).json()

        found = answer(chat_template_kwargs={"x": 1})
        assert found["choices"][0]["message"]["content"] == "an image in 2"
        assert found["usage"]["prompt_tokens"] == 2
        messages, template, options = engine.rendered
        assert messages[0] == {"role": "system", "content": "a\nb"}
        assert messages[1]["content"] == [*texts, IMAGE] and template is None and options == {"x": 1}
        plain = answer(messages=[{"role": "user", "content": texts}])
        assert plain["choices"][0]["message"]["content"] == "no image in 1"
        assert httpx.post(f"{served.url}/tokenize", json={"model": "m", **body}).json()["tokens"] == [7, 7]
        for more, match in (
            ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "takes only text, image"),
            ({"use_beam_search": True}, "does not work with media"),
        ):
            refused = answer(**more)
            assert refused["error"]["code"] in (400, None) and match in json.dumps(refused)
    finally:
        served.close()


def test_prompts_with_equal_images_are_equal_to_routers() -> None:
    def text(url: str) -> str | None:
        parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
        return text_of(
            [ChatCompletionRequest.model_validate({"messages": [{"role": "user", "content": parts}]})]
        )

    one = text(DATA + "A" * 100_000)
    assert one is not None and "see" in one and len(one) < 300
    assert one == text(DATA + "A" * 100_000) != text(DATA)


class Renderer:
    """vLLM's renderer as far as it is used: a token for each message, or the error that a URL names."""

    tokenizer = None

    def __init__(self, **limits: int) -> None:
        self.mm_processor = (
            SimpleNamespace(info=SimpleNamespace(supported_mm_limits=limits)) if limits else None
        )

    async def render_chat_async(self, conversations: Any, chat: Any, tokens: Any) -> Any:
        assert chat.chat_template_kwargs["add_generation_prompt"] and not tokens.add_special_tokens
        kind = "token"
        for message in conversations[0]:
            if isinstance(message["content"], list):
                kind = "multimodal"
                url = message["content"][0]["image_url"]["url"]
                errors = {
                    "data:a": OSError("no image"),
                    "data:b": ValueError("no base"),
                    "data:c": KeyError("c"),
                }
                if url in errors:
                    raise errors[url]
        return None, [{"type": kind, "prompt_token_ids": [1] * len(conversations[0])}]


def vllm_media(monkeypatch: pytest.MonkeyPatch, domains: list[str] | None = None, **limits: int) -> VllmMedia:
    for name, fields in (
        ("vllm.renderers", {"ChatParams": SimpleNamespace, "TokenizeParams": SimpleNamespace}),
        ("vllm.utils.mistral", {"is_mistral_tokenizer": lambda tokenizer: False}),
    ):
        module: Any = types.ModuleType(name)
        module.__dict__.update(fields)
        monkeypatch.setitem(sys.modules, name, module)
    config = SimpleNamespace(
        allowed_media_domains=domains,
        allowed_local_media_path="",
        enable_prompt_embeds=False,
        max_model_len=16,
        multimodal_config=SimpleNamespace(media_io_kwargs=None),
    )
    return VllmMedia(SimpleNamespace(renderer=Renderer(**limits), model_config=config))


def test_vllm_renders_media_from_allowed_places(monkeypatch: pytest.MonkeyPatch) -> None:
    made = vllm_media(monkeypatch, image=3, vision_chunk=1)
    assert made.kinds == {"image", "video"} and not vllm_media(monkeypatch).kinds

    def render(url: str | None) -> list[int]:
        content: Any = "Hi" if url is None else [{"type": "image_url", "image_url": {"url": url}}]
        return asyncio.run(made.render([{"role": "user", "content": content}], None, {}))

    found = render(DATA)
    assert isinstance(found, MediaPrompt) and found == [1] and found.rendered["type"] == "multimodal"
    assert not isinstance(render(None), MediaPrompt) and render(None) == [1]
    for url, error, match in (
        ("http://a.example/b.png", NotSupported, "allowed_media_domains"),
        ("file:///etc/passwd", NotSupported, "allowed_local_media_path"),
        ("data:a", BadRequest, "cannot be read: no image"),
        ("data:b", ValueError, "no base"),
        ("data:c", KeyError, "c"),
    ):
        with pytest.raises(error, match=match):
            render(url)


def test_redirects_from_allowed_hosts_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
    for given in (None, "1"):
        monkeypatch.setenv(name, given or "")  # so that the end of the test restores it
        if given is None:
            monkeypatch.delenv(name)
        vllm_media(monkeypatch, image=1)
        assert os.environ.get(name) == given
        vllm_media(monkeypatch, ["a.example"], image=1)
        assert os.environ[name] == (given or "0")
