"""Text of audio by a small Whisper in vLLM, as OpenAI's client asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from skate.serve.llm import build_openai_app
from tests.vllm import serving, speech_models
from tests.vllm.speech_models import tone

#: A request whose answer does not vary, of few tokens.
SHORT: dict[str, Any] = {"model": "m", "language": "en", "extra_body": {"max_completion_tokens": 12}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech_models.speech_model(tmp_path_factory.mktemp("model") / "speech")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Any]:
    config = serving.config(folder, engine_kwargs={"max_model_len": 128})
    with serving.served(build_openai_app({"llm_configs": [config]})) as url, serving.client(url) as made:
        yield made


def test_transcriptions_are_those_of_transformers(client: Any, folder: Path) -> None:
    texts = set()
    for hertz in (440, 900):
        audio = tone(hertz)
        wanted = speech_models.heard(folder, audio, "transcribe", 12)
        found = client.audio.transcriptions.create(file=("a.wav", audio), **SHORT)
        assert found.text.rstrip("\ufffd") == wanted and found.usage.seconds == 1
        texts.add(wanted)
    assert len(texts) == 2


def test_a_stream_has_the_same_text(client: Any) -> None:
    whole = client.audio.transcriptions.create(file=("a.wav", tone(900)), **SHORT).text
    body = {"max_completion_tokens": "12", "model": "m", "language": "en", "stream": "true"}
    found = httpx.post(
        f"{client.base_url}audio/transcriptions", data=body, files={"file": tone(900)}, timeout=60
    )
    assert found.headers["content-type"].startswith("text/event-stream")
    *events, done, end = found.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    chunks = [json.loads(each.removeprefix("data: ")) for each in events]
    assert {each["model"] for each in chunks} == {"m"}
    choices = [choice for each in chunks for choice in each["choices"]]
    assert "".join(each["delta"].get("content") or "" for each in choices) == whole


def test_translations_are_those_of_transformers(client: Any, folder: Path) -> None:
    wanted = speech_models.heard(folder, tone(900), "translate", 12, "de")
    body = {"max_completion_tokens": "12", "model": "m", "language": "de"}
    place = f"{client.base_url}audio/translations"
    found = httpx.post(place, data=body, files={"file": tone(900)}, timeout=60).json()
    assert found["text"].rstrip("\ufffd") == wanted


def test_long_audio_is_cut(client: Any) -> None:
    found = client.audio.transcriptions.create(file=("a.wav", tone(440, 5.0)), **SHORT)
    assert found.usage.seconds == 5 and found.text


def test_what_does_not_go_is_refused(client: Any) -> None:
    for file, more, match in (
        (b"no audio", {}, "audio"),
        (tone(440), {"language": "xx"}, "language"),
        (tone(440), {"temperature": 99}, "temperature"),
        (tone(440), {"response_format": "srt"}, "response_format"),
        (tone(440), {"extra_body": {"guess": 1}}, "guess"),
    ):
        with pytest.raises(openai.BadRequestError, match=match):
            client.audio.transcriptions.create(file=("a.wav", file), **{**SHORT, **more})
    with pytest.raises(openai.NotFoundError):
        client.audio.transcriptions.create(file=("a.wav", tone(440)), model="other")
    place = f"{client.base_url}audio/transcriptions"
    assert "multipart/form-data" in httpx.post(place, json={"model": "m"}).json()["error"]["message"]
    assert httpx.post(place, data={"model": "m"}, files={"other": b""}).json()["error"]["param"] == "file"
    large = httpx.post(place, data={"model": "m"}, files={"file": b"0" * (27 << 20)}, timeout=60)
    assert large.status_code == 413
