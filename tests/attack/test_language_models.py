"""One client of a language model cannot end or stall the answers of the others, nor have errors logged for its own mistakes."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("transformers", reason="the embedded engine stands on transformers")

from skate.llm import EngineArgs, SamplingParams
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.embedded.sampler import Choice, choose
from skate.llm.errors import BadRequest
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.body import BODY_BYTES_MAX
from skate.llm.openai.model_service import ModelService
from tests.conformance.waiting import wait_for
from tests.llm import tiny
from tests.llm.served import Served

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEngine]:
    folder = tiny.save(tmp_path_factory.mktemp("models") / "tiny")
    made = EmbeddedEngine(EngineArgs(str(folder), kwargs={"max_num_seqs": 8}))
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


@pytest.fixture(scope="module")
def url(engine: EmbeddedEngine) -> Iterator[str]:
    served = Served(build_app(LocalModels([ModelService(engine, "tiny")])))
    yield served.url
    served.close()


@pytest.fixture
def http(url: str) -> Iterator[Any]:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.ERROR] == []


def deep(levels: int) -> Any:
    found: Any = {"type": "string"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}}
    return found


def chat(**more: Any) -> bytes:
    return json.dumps({**CHAT, "max_tokens": 4, **more}).encode()


BAD: dict[str, tuple[bytes, int, str]] = {
    "bias beyond all": (chat(logit_bias={"5": 1e308}), 400, "logit_bias"),
    "bias above the bound": (chat(logit_bias={"5": 101}), 400, "logit_bias"),
    "bias below the bound": (chat(logit_bias={"5": -100.5}), 400, "logit_bias"),
    "bias NaN as a text": (chat(logit_bias={"5": "NaN"}), 400, "logit_bias"),
    "bias NaN": (chat(logit_bias={"5": float("nan")}), 400, "logit_bias"),
    "bias infinite": (chat(logit_bias={"5": float("-inf")}), 400, "logit_bias"),
    "bias of no token": (chat(logit_bias={"99999": 1}), 400, "logit_bias"),
    "max_tokens true": (chat(max_tokens=True), 400, "max_tokens"),
    "max_tokens a text": (chat(max_tokens="9"), 400, "max_tokens"),
    "n false": (chat(n=False), 400, "n"),
    "temperature true": (chat(temperature=True), 400, "temperature"),
    "temperature NaN": (chat(temperature=float("nan")), 400, "temperature"),
    "repetition_penalty tiny": (chat(repetition_penalty=1e-320), 400, "repetition_penalty"),
    "lone surrogate": (b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud800"}]}', 400, ""),
    "raw surrogate": (
        b'{"model": "tiny", "messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        400,
        "",
    ),
    "no UTF-8": (b'{"model": "tiny\xff"}', 400, ""),
    "deep JSON": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, ""),
    "deep schema": (
        chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": deep(300)}}),
        400,
        "",
    ),
    "a chat template": (chat(chat_template="{% for a in range(10**12) %}{% endfor %}"), 400, "chat_template"),
    "a chat template inside": (
        chat(chat_template_kwargs={"chat_template": "x"}),
        400,
        "chat_template_kwargs",
    ),
    "arguments of the tokenizer": (
        chat(chat_template_kwargs={"tokenize": True}),
        400,
        "chat_template_kwargs",
    ),
    "messages twice": (chat(chat_template_kwargs={"messages": []}), 400, "chat_template_kwargs"),
    "a template by another name": (chat(chat_template_kwargs={"template": "x"}), 400, "chat_template_kwargs"),
    "many messages": (chat(messages=CHAT["messages"] * 100_000), 400, "messages"),
    "more messages than tokens": (chat(messages=CHAT["messages"] * 300), 400, "messages"),
    "many prompts": (
        b'{"model": "tiny", "prompt": ' + json.dumps(["a"] * 3000).encode() + b"}",
        400,
        "prompt",
    ),
    "a long prompt": (chat(messages=[{"role": "user", "content": "a b" * 300_000}]), 400, "messages"),
    "a body over the limit": (chat(user="x" * BODY_BYTES_MAX), 413, ""),
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_request_is_refused_quickly_and_without_a_traceback(name: str, http: Any) -> None:
    body, status, param = BAD[name]
    path = "/v1/completions" if b'"prompt"' in body else "/v1/chat/completions"
    started = time.monotonic()
    answer = http.post(path, content=body)
    assert time.monotonic() - started < 10
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    if param:
        assert param in (error["param"] or "")


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 10**30, "temperature": 1},
        {"stop_token_ids": [10**12, -5], "min_tokens": 2},
        {"logit_bias": {"5": 100, "6": -100}},
        {"repetition_penalty": 0.01, "temperature": 1},
        {"frequency_penalty": -2, "presence_penalty": 2, "min_p": 1.0},
        {"seed": 10**300},
    ],
)
def test_extreme_params_get_an_answer_and_harm_nobody(params: dict[str, Any], http: Any) -> None:
    answer = http.post("/v1/completions", json={"model": "tiny", "prompt": "ab", "max_tokens": 4, **params})
    assert answer.status_code == 200, answer.text
    assert http.post("/v1/chat/completions", content=chat()).status_code == 200


def test_no_address_in_a_request_is_fetched(http: Any) -> None:
    """Images and parts of schemas by URL and by file: no connection is made, and no file is opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for address in (url, "file:///etc/hostname"):
            schema = {"type": "object", "properties": {"a": {"$ref": address}}}
            requests = (
                {
                    "messages": [
                        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}
                    ]
                },
                {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}},
            )
            for more in requests:
                answer = http.post("/v1/chat/completions", content=chat(**more))
                assert 400 <= answer.status_code < 500, answer.text
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_row_that_cannot_be_chosen_from_fails_alone() -> None:
    import torch

    logits = torch.zeros(4, 10)
    logits[:, 3] = 5.0
    logits[1] = float("nan")
    logits[2] = float("-inf")
    choices = [Choice(SamplingParams(temperature=each), [1], 10, 1) for each in (0.0, 1.0, 1.0, 0.0)]
    tokens, _, failed = choose(logits, choices, [(), (), (), (99,)])
    assert tokens[0] == 3
    assert sorted(failed) == [1, 2, 3]
    assert isinstance(failed[1], BadRequest)


def test_a_broken_answer_ends_its_request_and_the_others_go_on(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed marks the request whose row is broken, in the middle of the answers."""
    change = Choice.change

    def spoil(self: Choice, logits: Any) -> None:
        change(self, logits)
        if self.params.seed == 666:
            logits.fill_(float("nan"))

    monkeypatch.setattr(Choice, "change", spoil)

    async def ask(seed: int) -> str:
        params = SamplingParams(max_tokens=30, seed=seed, logit_bias={5: 1.0}, ignore_eos=True, n=2)
        ends = []
        async for new in engine.generate("ab", params, f"r{seed}"):
            if new.finish_reason:
                ends.append(new.finish_reason)
        return ",".join(ends)

    async def main() -> list[Any]:
        return await asyncio.gather(*(ask(each) for each in (1, 666, 2, 3)), return_exceptions=True)

    found = asyncio.run(main())
    assert [found[0], *found[2:]] == ["length,length"] * 3
    assert isinstance(found[1], BadRequest)
    assert engine.load() == (0, 0)


def test_a_request_of_very_many_answers_holds_up_no_other_for_long(engine: EmbeddedEngine) -> None:
    """Eight slots, and hundreds of completions of one request that wait for them."""

    async def ask(name: str, prompts: int, n: int, tokens: int) -> None:
        params = SamplingParams(max_tokens=tokens, n=n, ignore_eos=True)

        async def one(number: int) -> None:
            async for _ in engine.generate("ab", params, f"{name}-{number}"):
                pass

        await asyncio.gather(*(one(number) for number in range(prompts)))

    async def main() -> float:
        large = asyncio.create_task(ask("large", 20, 20, 8))
        while engine.load()[1] < 300:
            await asyncio.sleep(0)
        await ask("small", 1, 2, 4)
        left = engine.load()[1]
        large.cancel()
        await asyncio.gather(large, return_exceptions=True)
        return left

    assert asyncio.run(main()) > 200
    wait_for(lambda: engine.load() == (0, 0), 30, "the end of the large one")


def test_long_prompts_of_one_client_do_not_stall_the_streams_of_others(http: Any, url: str) -> None:
    """The limit is generous, for busy machines. Without the fix, one such prompt stopped all streams for seconds."""
    stop = threading.Event()
    hostile = {"model": "tiny", "messages": [{"role": "user", "content": "a b c " * 200_000}]}
    body = json.dumps(hostile).encode()

    def attack() -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                assert client.post("/v1/chat/completions", content=body).status_code == 400
                assert client.post("/tokenize", content=body[:-1] + b', "x": 1}').status_code == 400

    threads = [threading.Thread(target=attack) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        worst = 0.0
        for _ in range(6):
            started = time.monotonic()
            assert http.post("/v1/chat/completions", content=chat()).status_code == 200
            worst = max(worst, time.monotonic() - started)
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert worst < 5


def test_templates_of_requests_are_run_where_they_are_trusted(engine: EmbeddedEngine) -> None:
    served = Served(build_app(LocalModels([ModelService(engine, "tiny", trust_request_chat_template=True)])))
    try:
        with httpx.Client(base_url=served.url, timeout=60, trust_env=False) as client:
            for more in ({"chat_template": "abc"}, {"chat_template_kwargs": {"chat_template": "abc"}}):
                answer = client.post("/v1/chat/completions", content=chat(**more))
                assert answer.status_code == 200, answer.text
                assert answer.json()["usage"]["prompt_tokens"] == 3
    finally:
        served.close()


def test_a_client_that_sends_on_after_the_refusal_reads_all_of_it(url: str) -> None:
    """The rest of a rejected body is discarded before the connection closes. Otherwise a reset would destroy the answer."""
    host, port = url.removeprefix("http://").rsplit(":", 1)
    size = BODY_BYTES_MAX + 4_000_000
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n"
        connection.sendall(head.encode())
        seen = connection.recv(12)
        assert seen == b"HTTP/1.1 413"
        connection.sendall(b"x" * size)
        while part := connection.recv(65536):
            seen += part
    assert json.loads(seen.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_too_large"
