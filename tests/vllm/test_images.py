"""Images in conversations with vLLM: what the model sees, where images may come from, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from PIL import Image

from skate.serve.llm import build_openai_app
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.pictures import data, image, part
from tests.vllm.serving import GREEDY

#: The text of the conversations, in which the template adds a mark for each image.
PROMPT = "<|user|>Hi<|assistant|>"


class _Files(SimpleHTTPRequestHandler):
    """Files of a folder, and a redirect to a host that is not allowed."""

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/red.png")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def asks(*parts: dict[str, Any]) -> list[Any]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "Hi"}]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.image_model(tmp_path_factory.mktemp("model") / "images")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pictures")
    image("red").save(made / "red.png")
    return made


@pytest.fixture(scope="module")
def client(folder: Path, pictures: Path) -> Iterator[Any]:
    limits = {
        # vLLM's own class for LLaVA needs torchvision, which is not there.
        "model_impl": "transformers",
        "limit_mm_per_prompt": {"image": 2},
        "allowed_media_domains": ["127.0.0.1"],
        "allowed_local_media_path": str(pictures),
    }
    app = build_openai_app({"llm_configs": [serving.config(folder, engine_kwargs=limits)]})
    with serving.served(app) as url, serving.client(url) as made:
        yield made


def said(client: Any, messages: list[Any], **more: Any) -> str:
    found = client.chat.completions.create(messages=messages, max_tokens=12, **GREEDY, **more)
    return str(found.choices[0].message.content)


def wanted(folder: Path, marks: int, *images: Image.Image) -> str:
    """The answer of transformers. vLLM leaves out the last character of an answer if it is not complete."""
    prompt = f"<|user|>{'<image>' * marks}Hi<|assistant|>"
    return text_of(models.answer_to_images(folder, prompt, list(images), 12)).rstrip("\ufffd")


def test_the_model_sees_what_transformers_sees(client: Any, folder: Path) -> None:
    answers = {}
    for color in ("red", "blue"):
        answers[color] = wanted(folder, 1, image(color))
        found = client.chat.completions.create(messages=asks(data(color)), max_tokens=12, **GREEDY)
        assert found.choices[0].message.content == answers[color]
        places = (models.IMAGE_SIZE // models.IMAGE_PATCH) ** 2
        assert found.usage.prompt_tokens == len(PROMPT) + places
    assert answers["red"] != answers["blue"]
    # The keys of a prompt with another image are in the cache by now, for the same tokens.
    assert [said(client, asks(data(each))) for each in ("blue", "red")] == [answers["blue"], answers["red"]]
    both = wanted(folder, 2, image("red"), image("blue"))
    assert said(client, asks(data("red"), data("blue"))) == both
    assert said(client, asks(data("blue"), data("red"))) != both


def test_streams_and_several_answers_see_it_too(client: Any) -> None:
    given = {"messages": asks(data("red")), "max_tokens": 8, "model": "m", "n": 2, "seed": 3}
    whole = client.chat.completions.create(**given)
    texts = ["", ""]
    for chunk in client.chat.completions.create(stream=True, **given):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [each.message.content for each in whole.choices]


def test_conversations_without_images_have_their_text(client: Any, folder: Path) -> None:
    answer = wanted(folder, 0)
    assert said(client, [{"role": "user", "content": "Hi"}]) == said(client, asks()) == answer


def test_images_come_from_allowed_places(client: Any, pictures: Path) -> None:
    seen = said(client, asks(data("red")))
    assert said(client, asks(part(f"file://{pictures}/red.png"))) == seen
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(pictures)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        there = f"127.0.0.1:{server.server_address[1]}"
        assert said(client, asks(part(f"http://{there}/red.png"))) == seen
        for url, match in (
            (f"http://{there}/blue.png", "HTTP 404"),
            (f"http://{there}/redirect", "load image"),
            (f"http://localhost:{server.server_address[1]}/red.png", "allowed domains"),
            (f"http://127.0.0.1:{server.server_address[1]}@localhost/red.png", "allowed domains"),
            ("http://127.0.0.1:1/red.png", "cannot be read"),
            ("file:///etc/passwd", "must be a subpath"),
            (f"file://{pictures}/../red.png", "must be a subpath"),
            (f"file://{pictures}/blue.png", "cannot be read"),
        ):
            with pytest.raises(openai.BadRequestError, match=match):
                said(client, asks(part(url)))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_does_not_go_is_refused(client: Any) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    embeds = {"type": "image_embeds", "image_embeds": "AAAA"}
    for parts, match in (
        ([data("red")] * 3, r"At most 2 image\(s\)"),
        ([part("data:image/png;base64,AAAA")], "load image|identify image"),
        ([part("data:image/png;base64,%%%")], "400"),
        ([part("data:image/png,AAAA")], "base64"),
        ([audio], "the model 'm' takes only text, image"),
        ([embeds], "enable-mm-embeds"),
        ([{"type": "text", "text": "x" * 300}, data("red")], "context is 256 tokens"),
    ):
        with pytest.raises(openai.BadRequestError, match=match):
            said(client, asks(*parts))
    with pytest.raises(openai.BadRequestError, match="does not work with media"):
        said(client, asks(data("red")), extra_body={"use_beam_search": True})
    assert said(client, asks(data("red")))  # the engine is still there


def test_tokens_of_a_conversation_include_the_places_of_images(client: Any) -> None:
    url = str(client.base_url).removesuffix("/v1/")
    found = httpx.post(
        f"{url}/tokenize", json={"model": "m", "messages": asks(data("red"))}, timeout=60
    ).json()
    usage = client.chat.completions.create(messages=asks(data("red")), max_tokens=1, **GREEDY).usage
    assert found["count"] == usage.prompt_tokens and found["tokens"].count(260) == 4
