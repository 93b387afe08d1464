"""OpenAI's API as OpenAI's own client sees it, over HTTP on the loopback."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from tests.llm.asking import ask
from tests.llm.served import Served

HELLO: list[Any] = [{"role": "user", "content": "Hi"}]
PROMPT = "<|user|>Hi\n<|assistant|>"


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
        yield made


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        threading.Event().wait(0.005)


def test_a_chat_answers_what_the_engine_generates(client: openai.OpenAI, engine: EmbeddedEngine) -> None:
    wanted = asyncio.run(ask(engine, PROMPT, max_tokens=12))
    found = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=12, temperature=0)
    choice = found.choices[0]
    assert choice.message.role == "assistant" and choice.message.content == wanted.text
    assert choice.finish_reason == wanted.finish_reason and choice.logprobs is None
    assert found.object == "chat.completion" and found.model == "tiny" and found.id.startswith("chatcmpl-")
    assert found.usage is not None
    assert found.usage.prompt_tokens == len(PROMPT)
    assert found.usage.completion_tokens == len(wanted.tokens)
    assert found.usage.total_tokens == len(PROMPT) + len(wanted.tokens)


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_says_the_same_in_parts(client: openai.OpenAI, usage: bool) -> None:
    params: dict[str, Any] = {
        "model": "tiny",
        "messages": HELLO,
        "max_completion_tokens": 20,
        "temperature": 0,
        "n": 2,
    }
    whole = client.chat.completions.create(**params)
    options: Any = {"include_usage": True} if usage else openai.omit
    texts, ends = ["", ""], [None, None]
    chunks = list(client.chat.completions.create(**params, stream=True, stream_options=options))
    assert [chunk.choices[0].delta.role for chunk in chunks[:1]] == ["assistant"]
    for chunk in chunks:
        assert chunk.object == "chat.completion.chunk" and chunk.id == chunks[0].id
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert ends == [choice.finish_reason for choice in whole.choices]
    if usage:
        assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
        assert all(chunk.usage is None for chunk in chunks[:-1])
    else:
        assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_is_events_that_end_with_done(url: str) -> None:
    body = {"model": "tiny", "prompt": "ab", "stream": True, "max_tokens": 5, "temperature": 0}
    answer = httpx.post(f"{url}/v1/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events.pop() == "" and events.pop() == "data: [DONE]"
    found = [json.loads(event.removeprefix("data: ")) for event in events]
    assert all(each["object"] == "text_completion" for each in found)
    assert found[-1]["choices"][0]["finish_reason"] == "length"


def test_the_asynchronous_client(url: str) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            params: dict[str, Any] = {"model": "tiny", "messages": HELLO, "max_tokens": 15, "seed": 4}
            whole = await client.chat.completions.create(**params)

            async def streamed() -> str:
                text = ""
                async for chunk in await client.chat.completions.create(**params, stream=True):
                    text += chunk.choices[0].delta.content or ""
                return text

            texts = await asyncio.gather(*(streamed() for _ in range(8)))
            assert set(texts) == {whole.choices[0].message.content}

    asyncio.run(run())


def test_completions_of_several_prompts_as_text_and_tokens(
    client: openai.OpenAI, engine: EmbeddedEngine
) -> None:
    params: dict[str, Any] = {"model": "tiny", "max_tokens": 6, "temperature": 0}
    found = client.completions.create(prompt=["ab", "cde"], n=2, **params)
    single = [client.completions.create(prompt=each, **params).choices[0].text for each in ("ab", "cde")]
    assert [choice.text for choice in found.choices] == [single[0], single[0], single[1], single[1]]
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert found.usage is not None and found.usage.prompt_tokens == 5
    tokens = engine.text.encode("ab")
    assert client.completions.create(prompt=tokens, **params).choices[0].text == single[0]
    assert client.completions.create(prompt=[tokens], **params).choices[0].text == single[0]
    assert client.completions.create(prompt="ab", echo=True, **params).choices[0].text == "ab" + single[0]
    streamed = ["", ""]
    for chunk in client.completions.create(prompt=["ab", "cde"], echo=True, stream=True, **params):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == ["ab" + single[0], "cde" + single[1]]


def test_logprobs_of_both_apis(client: openai.OpenAI, engine: EmbeddedEngine) -> None:
    params: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "temperature": 0}
    chat = client.chat.completions.create(messages=HELLO, logprobs=True, top_logprobs=2, **params).choices[0]
    assert chat.logprobs is not None and chat.logprobs.content is not None
    for found in chat.logprobs.content:
        assert found.logprob <= 0 and len(found.top_logprobs) == 2
        assert found.logprob == found.top_logprobs[0].logprob and found.token == found.top_logprobs[0].token
        assert found.bytes is not None and len(found.bytes) == 1
    joined = bytes(byte for found in chat.logprobs.content for byte in found.bytes or [])
    assert joined.decode(errors="replace") == chat.message.content
    plain = client.completions.create(prompt="Hi", logprobs=2, **params).choices[0].logprobs
    assert plain is not None and plain.tokens is not None and plain.token_logprobs is not None
    assert len(plain.tokens) == len(plain.token_logprobs) == len(plain.text_offset or []) == 8
    streamed = [
        entry
        for chunk in client.chat.completions.create(
            messages=HELLO, logprobs=True, top_logprobs=2, stream=True, **params
        )
        for choice in chunk.choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or []
    ]
    assert streamed == chat.logprobs.content


def test_stop_ends_an_answer(client: openai.OpenAI) -> None:
    params: dict[str, Any] = {"model": "tiny", "prompt": "AB", "max_tokens": 40, "temperature": 0}
    text = client.completions.create(**params, extra_body={"ignore_eos": True}).choices[0].text
    stop = text[5:8]
    found = client.completions.create(**params, stop=[stop], extra_body={"ignore_eos": True}).choices[0]
    assert found.text == text[: text.index(stop)] and found.finish_reason == "stop"


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings(client: openai.OpenAI, engine: EmbeddedEngine, encoding: Any) -> None:
    more = {} if encoding is None else {"encoding_format": encoding}
    found = client.embeddings.create(model="tiny", input=["one", "another text"], **more)
    wanted = asyncio.run(engine.embed("another text", "x")).vector
    vector: Any = found.data[1].embedding
    if encoding == "base64":
        assert isinstance(vector, str)
        return
    assert vector == pytest.approx(wanted, abs=1e-5)
    assert math.isclose(sum(each * each for each in vector), 1, abs_tol=1e-4)
    assert found.usage.prompt_tokens == len("oneanother text")


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "plain:model"]
    assert client.models.retrieve("plain:model").id == "plain:model"
    with pytest.raises(openai.NotFoundError, match="'none' does not exist"):
        client.models.retrieve("none")


def test_tokens_there_and_back(url: str) -> None:
    made = httpx.post(
        f"{url}/tokenize", json={"model": "tiny", "prompt": "aé", "return_token_strs": True}
    ).json()
    assert made["count"] == 3 and made["max_model_len"] == 256 and made["token_strs"][0] == "a"
    back = httpx.post(f"{url}/detokenize", json={"model": "tiny", "tokens": made["tokens"]}).json()
    assert back == {"prompt": "aé"}
    chat = httpx.post(f"{url}/tokenize", json={"model": "tiny", "messages": HELLO}).json()
    assert chat["count"] == len(PROMPT)


CHAT: dict[str, Any] = {"model": "tiny", "messages": HELLO}


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "param", "match"),
    [
        ("/v1/chat/completions", {**CHAT, "model": "gpt-9"}, 404, "model_not_found", "model", "'gpt-9' does not exist"),
        ("/v1/chat/completions", {**CHAT, "model": "tiny:no-lora"}, 404, "model_not_found", "model", "does not exist"),
        ("/v1/chat/completions", {"messages": HELLO}, 400, None, "model", "must provide a model"),
        ("/v1/chat/completions", {"model": "tiny"}, 400, "missing_required_parameter", "messages", "messages"),
        ("/v1/chat/completions", {**CHAT, "temprature": 1}, 400, "unknown_parameter", "temprature", "Unrecognized"),
        ("/v1/chat/completions", {**CHAT, "temperature": 3}, 400, "invalid_value", "temperature", "less than or equal"),
        ("/v1/chat/completions", {**CHAT, "n": 0}, 400, "invalid_value", "n", "greater than"),
        ("/v1/chat/completions", {**CHAT, "top_p": 0}, 400, None, "top_p", "top_p"),
        ("/v1/chat/completions", {**CHAT, "stop": [""]}, 400, None, "stop", "stop"),
        ("/v1/chat/completions", {**CHAT, "messages": []}, 400, "invalid_value", "messages", "messages"),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 300}, 400, "context_length_exceeded", "max_tokens", "256"),
        ("/v1/chat/completions", {**CHAT, "tools": [{"type": "function"}]}, 400, None, "tools", "an object with a name"),
        ("/v1/chat/completions", {**CHAT, "stream_options": {}}, 400, "invalid_value", "stream_options", "stream=true"),
        ("/v1/chat/completions", {**CHAT, "top_logprobs": 2}, 400, None, "top_logprobs", "logprobs=true"),
        ("/v1/chat/completions", {**CHAT, "model": "plain:model"}, 400, None, "messages", "no chat template"),
        (
            "/v1/chat/completions",
            {**CHAT, "response_format": {"type": "xml"}},
            400,
            None,
            "response_format",
            "response_format",
        ),
        (
            "/v1/chat/completions",
            {**CHAT, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            400,
            None,
            "messages",
            "image_url",
        ),
        ("/v1/completions", {"model": "tiny", "prompt": "x" * 300}, 400, "context_length_exceeded", None, "has 300"),
        ("/v1/completions", {"model": "tiny", "prompt": ""}, 400, None, "prompt", "empty"),
        ("/v1/completions", {"model": "tiny", "prompt": [[1, 999]]}, 400, None, "prompt", "token 999"),
        ("/v1/completions", {"model": "tiny", "prompt": "x", "suffix": "y"}, 400, None, "suffix", "suffix"),
        ("/v1/embeddings", {"model": "tiny", "input": ["a", ""]}, 400, None, "input", "empty"),
        ("/v1/embeddings", {"model": "tiny", "input": "a", "dimensions": 33}, 400, None, "dimensions", "32"),
        ("/detokenize", {"model": "tiny", "tokens": ["x"]}, 400, "invalid_value", "tokens", "tokens"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_openai_says_it(
    url: str, path: str, body: Any, status: int, code: str | None, param: str | None, match: str
) -> None:
    answer = httpx.post(url + path, json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error" and error["code"] == code
    assert param is None or error["param"] == param
    assert re.search(match, error["message"]), error["message"]


@pytest.mark.parametrize("body", [b"{nope", b"[1]", b"", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(url: str, body: bytes) -> None:
    answer = httpx.post(f"{url}/v1/chat/completions", content=body)
    assert answer.status_code == 400 and "JSON" in answer.json()["error"]["message"]


def test_wrong_paths_and_methods_have_openais_shape_too(url: str) -> None:
    assert httpx.get(f"{url}/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{url}/v1/chat/completions").status_code == 405


def test_health_and_metrics(url: str, client: openai.OpenAI) -> None:
    assert httpx.get(f"{url}/health").status_code == 200
    client.completions.create(model="tiny", prompt="ab", max_tokens=3, extra_body={"ignore_eos": True})
    text = httpx.get(f"{url}/metrics").text
    for name in ("ttft_framework_seconds_count", "ttft_engine_seconds_count", "generated_tokens_total"):
        found = re.search(rf'skate_llm_{name}{{model="tiny"}} (\S+)', text)
        assert found is not None and float(found[1]) > 0, name
    assert 'skate_llm_requests_running{model="tiny"} 0.0' in text


def test_keys(engine: EmbeddedEngine) -> None:
    served = Served(build_app(LocalModels([ModelService(engine, "tiny")]), api_keys=["one", "two"]))
    try:
        for key in ("one", "two"):
            with openai.OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0) as client:
                assert client.models.retrieve("tiny").id == "tiny"
        refused = pytest.raises(openai.AuthenticationError, match="Incorrect API key")
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="three", max_retries=0) as client, refused:
            client.chat.completions.create(model="tiny", messages=HELLO)
        assert httpx.get(f"{served.url}/v1/models").json()["error"]["code"] == "invalid_api_key"
        assert httpx.get(f"{served.url}/health").status_code == 200
    finally:
        served.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_ends_its_request(
    url: str, engine: EmbeddedEngine, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 40 answers of 200 tokens, four at a time, would take 2,000 steps, of which each takes 50 ms here: 100 s."""
    decode = engine._model.decode

    def slow(*given: Any) -> Any:
        threading.Event().wait(0.05)
        return decode(*given)

    monkeypatch.setattr(engine._model, "decode", slow)
    body = {"model": "tiny", "prompt": "ab", "max_tokens": 200, "stream": stream, "ignore_eos": True, "n": 40}
    if stream:
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()  # the connection closes with the last reference to it
            next(lines)
            assert engine.load()[0] > 0
    else:
        with httpx.Client(timeout=httpx.Timeout(60, read=0.5)) as client, pytest.raises(httpx.ReadTimeout):
            client.post(f"{url}/v1/completions", json=body)
    wait_until(lambda: engine.load() == (0, 0), "the engine is idle")


def test_embeddings_of_fewer_dimensions_are_the_first_ones(client: openai.OpenAI) -> None:
    whole = client.embeddings.create(model="tiny", input="ab").data[0].embedding
    part = client.embeddings.create(model="tiny", input="ab", dimensions=8).data[0].embedding
    length = math.sqrt(sum(each * each for each in whole[:8]))
    assert part == pytest.approx([each / length for each in whole[:8]], abs=1e-6)


def test_conversations_are_embedded_without_the_prompt_for_an_answer(url: str) -> None:
    def post(path: str, **body: Any) -> Any:
        found = httpx.post(url + path, json={"model": "tiny", **body})
        return found.json() if found.status_code == 200 else found.json()["error"]

    def tokens(prompt: str) -> Any:
        return post("/tokenize", prompt=prompt, add_special_tokens=False)["tokens"]

    hello = {"messages": [{"role": "user", "content": "Hi"}]}
    prompt = "<|user|>Hi\n"
    for adds, more in ((None, ""), (True, "<|assistant|>")):
        body = hello if adds is None else {**hello, "add_generation_prompt": adds}
        found = post("/v1/embeddings", **body)
        wanted = post("/v1/embeddings", input=tokens(prompt + more))
        assert found["usage"] == wanted["usage"]
        assert found["data"][0]["embedding"] == pytest.approx(wanted["data"][0]["embedding"], abs=1e-5)
    both = post("/v1/embeddings", **hello, add_generation_prompt=True, continue_final_message=True)
    assert both["param"] == "continue_final_message"
    assert "is a program" in post("/v1/embeddings", **hello, chat_template="{{ messages }}")["message"]
    assert (
        "argument of the tokenizer"
        in post("/tokenize", **hello, chat_template_kwargs={"padding": True})["message"]
    )
    assert post("/tokenize", **hello)["tokens"] == tokens(prompt + "<|assistant|>")
    assert post("/tokenize", **hello, continue_final_message=True)["tokens"] == tokens("<|user|>Hi")


def test_documents_are_ranked_by_their_scores(url: str) -> None:
    texts = ["far away", "ab", "abc"]
    scores = httpx.post(url + "/v1/score", json={"model": "tiny", "text_1": "ab", "text_2": texts}).json()
    ranked = sorted(range(3), key=lambda index: -scores["data"][index]["score"])
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        found = httpx.post(url + path, json={"model": "tiny", "query": "ab", "documents": texts}).json()
        assert [each["index"] for each in found["results"]] == ranked and ranked[0] == 1
        assert found["results"][0]["document"] == {"text": "ab"}
        assert found["usage"]["total_tokens"] == scores["usage"]["total_tokens"]
    first = {"model": "tiny", "query": "ab", "documents": texts, "top_n": 1}
    assert len(httpx.post(url + "/rerank", json=first).json()["results"]) == 1
    for wrong in ({"query": "ab", "documents": []}, {"query": "", "documents": ["a"]}, {"documents": ["a"]}):
        assert httpx.post(url + "/rerank", json={"model": "tiny", **wrong}).status_code == 400


def test_a_header_names_the_response(url: str) -> None:
    body = {"model": "tiny", "query": "ab", "documents": ["a"]}
    for more, name in (({}, "mine"), ({"request_id": "its"}, "its")):
        found = httpx.post(url + "/rerank", json={**body, **more}, headers={"X-Request-Id": "mine"})
        assert found.json()["id"] == f"rerank-{name}"


def test_the_embedded_engine_takes_only_text(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {"model": "tiny", "messages": [{"role": "user", "content": [part]}]}
    for path in ("/v1/chat/completions", "/v1/embeddings", "/tokenize"):
        found = httpx.post(url + path, json=body)
        assert found.status_code == 400 and found.json()["error"]["param"] == "messages"
        assert (
            "messages[0].content[0] has the type image_url, but the model 'tiny' takes only text"
            in found.text
        )


def test_scores_are_what_embeddings_say(client: openai.OpenAI, url: str) -> None:
    body = {"model": "tiny", "text_1": "ab", "text_2": ["ab", "xyz"]}
    found = httpx.post(url + "/v1/score", json=body).json()
    vectors = {t: client.embeddings.create(model="tiny", input=t).data[0].embedding for t in ("ab", "xyz")}
    near = sum(x * y for x, y in zip(vectors["ab"], vectors["xyz"], strict=True))
    assert [each["score"] for each in found["data"]] == pytest.approx([1.0, near], abs=1e-5)
    assert found["usage"]["prompt_tokens"] == 9 and found["object"] == "list"
    for wrong in ({"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, {"text_1": "", "text_2": "a"}):
        answer = httpx.post(url + "/v1/score", json={"model": "tiny", **wrong})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "text_1"


def test_a_model_of_texts_gives_no_text_of_audio(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.BadRequestError, match="the model 'tiny' gives no text of audio.*Whisper"):
        client.audio.transcriptions.create(model="tiny", file=("a.wav", b"RIFF"))
    given: dict[str, Any] = {"data": {"model": "tiny"}, "files": {"file": b"RIFF"}}
    assert "gives no text of audio" in httpx.post(f"{url}/v1/audio/translations", **given).text
    place = f"{url}/v1/audio/transcriptions"
    no_form = httpx.post(place, json={"model": "tiny"})
    assert no_form.status_code == 400 and "must be multipart/form-data" in no_form.text
    broken = httpx.post(place, content=b"x", headers={"content-type": "multipart/form-data"})
    assert broken.status_code == 400 and "is not a form" in broken.text
    no_file = httpx.post(place, data={"model": "tiny"}, files={"other": b""})
    assert no_file.json()["error"]["param"] == "file"
    many = httpx.post(place, data={f"x{number}": "1" for number in range(70)}, files={"file": b""})
    assert many.status_code == 400 and "is not a form" in many.text
    large = httpx.post(place, data={"model": "tiny"}, files={"file": bytes(27 << 20)}, timeout=60)
    assert large.status_code == 413 and large.json()["error"]["code"] == "request_too_large"


def test_the_first_beam_of_the_embedded_engine_is_at_least_as_likely_as_its_greedy_answer(
    client: openai.OpenAI,
) -> None:
    given: dict[str, Any] = {"model": "tiny", "prompt": ["ab", "xyz"], "max_tokens": 4, "logprobs": 1}
    search = {"use_beam_search": True, "ignore_eos": True}
    found = client.completions.create(n=3, extra_body=search, **given).choices
    assert [each.index for each in found] == list(range(6))
    totals = [sum(each.logprobs.token_logprobs) for each in found]  # type: ignore[union-attr,arg-type]
    greedy = client.completions.create(temperature=0, extra_body={"ignore_eos": True}, **given).choices
    for at, each in enumerate(greedy):
        of_prompt = totals[at * 3 : at * 3 + 3]
        assert of_prompt == sorted(of_prompt, reverse=True)
        assert of_prompt[0] >= sum(each.logprobs.token_logprobs) - 1e-4  # type: ignore[union-attr,arg-type]
    for more, match in (
        ({"use_beam_search": True, "stop": "x"}, "together with stop"),
        ({"use_beam_search": True, "stream": True}, "set stream to false"),
        ({"length_penalty": 2}, "requires use_beam_search"),
    ):
        with pytest.raises(openai.BadRequestError, match=match):
            client.completions.create(model="tiny", prompt="ab", extra_body=more)
