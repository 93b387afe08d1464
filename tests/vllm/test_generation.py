"""vLLM behind Serve as OpenAI's client sees it: answers, parameters, forms, adapters, controls and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from skate import serve
from skate.serve.llm.dev_ingress import build_dev_openai_app
from tests.conformance.waiting import wait_for
from tests.llm import tiny
from tests.vllm import models, serving
from tests.vllm.models import text_of
from tests.vllm.serving import GREEDY, HELLO, PROMPT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = models.text_model(tmp_path_factory.mktemp("model") / "text")
    models.adapter(made.parent / "adapters" / "loud", made)
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    config = serving.config(
        folder,
        lora_config={"dynamic_lora_loading_path": str(folder.parent / "adapters")},
        engine_kwargs={
            "profiler_config": {"profiler": "torch", "torch_profiler_dir": str(folder.parent / "profile")},
        },
    )
    with serving.served(build_dev_openai_app({"llm_configs": [config]})) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with serving.client(url) as made:
        yield made


def test_answers_are_those_of_transformers(client: Any, folder: Path) -> None:
    wanted = models.answer(folder, PROMPT, 12)
    found = client.chat.completions.create(messages=HELLO, max_tokens=12, **GREEDY)
    assert found.choices[0].message.content == text_of(wanted)
    assert found.usage.prompt_tokens == len(PROMPT) and found.usage.completion_tokens == 12
    whole = client.completions.create(prompt=PROMPT, max_tokens=12, **GREEDY)
    assert whole.choices[0].text == text_of(wanted) and whole.choices[0].finish_reason == "length"


def test_streams_have_the_same_text(client: Any) -> None:
    # vLLM refuses several greedy answers.
    given = {"messages": HELLO, "max_tokens": 40, "n": 2, "seed": 3, "model": "m"}
    whole = client.chat.completions.create(**given)
    stream = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **given)
    texts, usage = ["", ""], None
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
        usage = chunk.usage or usage
    assert texts == [each.message.content for each in whole.choices] and texts[0] != texts[1]
    assert usage.completion_tokens == whole.usage.completion_tokens
    parts = client.completions.create(prompt=[PROMPT, "ab"], max_tokens=9, stream=True, **GREEDY)
    found = ["", ""]
    for chunk in parts:
        for part in chunk.choices:
            found[part.index] += part.text
    both = client.completions.create(prompt=[PROMPT, "ab"], max_tokens=9, **GREEDY)
    assert found == [each.text for each in both.choices]


def test_seeds_repeat_an_answer_and_n_gives_different_ones(client: Any) -> None:
    def texts(seed: int) -> list[str]:
        params = {"model": "m", "temperature": 1.5, "max_tokens": 12, "seed": seed, "n": 3}
        return [each.text for each in client.completions.create(prompt="ab", **params).choices]

    assert texts(1) == texts(1) != texts(2)
    assert len(set(texts(1))) == 3


def test_log_probabilities(client: Any) -> None:
    chat = client.chat.completions.create(
        messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=4, **GREEDY
    )
    for each in chat.choices[0].logprobs.content:
        assert len(each.top_logprobs) == 4
        assert each.logprob == max(other.logprob for other in each.top_logprobs) <= 0
    plain = client.completions.create(prompt="ab", max_tokens=3, logprobs=2, **GREEDY)
    assert len(plain.choices[0].logprobs.token_logprobs) == 3


def test_echo_repeats_the_prompt(client: Any) -> None:
    plain = client.completions.create(prompt="ab", max_tokens=5, **GREEDY).choices[0].text
    echoed = client.completions.create(prompt="ab", max_tokens=5, echo=True, **GREEDY)
    assert echoed.choices[0].text == "ab" + plain


def test_log_probabilities_of_prompts_are_refused_with_adapters(client: Any) -> None:
    """A step with two such requests ends this vLLM, and so one client could end the answers of all."""
    for more in ({"echo": True, "logprobs": 1}, {"extra_body": {"prompt_logprobs": 1}}):
        with pytest.raises(openai.BadRequestError, match="serve the model without lora_config"):
            client.completions.create(prompt="ab", **more, **GREEDY)


def test_stop_texts_end_an_answer(client: Any) -> None:
    bias = {str(number): 100 for number in tiny.tokenizer().encode("xy")}
    given = {"prompt": "ab", "max_tokens": 60, "temperature": 1, "seed": 1, "logit_bias": bias, "model": "m"}
    found = client.completions.create(stop=["yx"], **given).choices[0]
    assert found.finish_reason == "stop" and found.stop_reason == "yx" and "yx" not in found.text
    kept = client.completions.create(stop="yx", extra_body={"include_stop_str_in_output": True}, **given)
    assert kept.choices[0].text == found.text + "yx"


def test_a_bias_decides_the_tokens(client: Any) -> None:
    letter = tiny.tokenizer().encode("q")[0]
    found = client.chat.completions.create(
        messages=HELLO, max_tokens=6, logit_bias={str(letter): 100}, **GREEDY
    )
    assert found.choices[0].message.content == "qqqqqq"


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_shapes_the_answer(client: Any, stream: bool) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
    bias = {str(tiny.tokenizer().encode(each)[0]): -100 for each in " \n\t"}
    given = {"messages": HELLO, "max_tokens": 120, "response_format": form, "logit_bias": bias, **GREEDY}
    found = client.chat.completions.create(stream=stream, **given)
    if stream:
        text = "".join(choice.delta.content or "" for chunk in found for choice in chunk.choices)
    else:
        text = found.choices[0].message.content
    person = json.loads(text, strict=False)  # the grammar of vLLM allows control characters
    assert set(person) == {"name", "age"} and len(person["name"]) <= 5 and person["age"] <= 99


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"regex": "[0-9]{3}-[a-c]{1,4}x"}, "[0-9]{3}-[a-c]{1,4}x"),
        ({"choice": ["left", "right"]}, "left|right"),
        ({"grammar": 'root ::= "SELECT " ("a" | "b") ";"'}, "SELECT [ab];"),
        ({"json_object": True}, r"\{.*"),
    ],
)
def test_forms_of_vllm(client: Any, form: dict[str, Any], pattern: str) -> None:
    found = client.completions.create(
        prompt="ab", max_tokens=40, extra_body={"structured_outputs": form}, **GREEDY
    )
    assert re.fullmatch(pattern, found.choices[0].text, re.DOTALL), found.choices[0].text


def test_adapters_of_a_folder(client: Any, folder: Path) -> None:
    wanted = models.answer(folder, "ab", 10, folder.parent / "adapters" / "loud")
    found = client.completions.create(prompt="ab", max_tokens=10, temperature=0, model="m:loud")
    assert found.choices[0].text == text_of(wanted) != text_of(models.answer(folder, "ab", 10))
    assert "m:loud" in [each.id for each in client.models.list()]
    assert client.models.retrieve("m:loud").id == "m:loud"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.completions.create(prompt="ab", model="m:none")


def test_tokens_of_texts(url: str) -> None:
    found = httpx.post(f"{url}/tokenize", json={"model": "m", "prompt": "abc", "return_token_strs": True})
    assert found.json()["count"] == 3 and found.json()["max_model_len"] == 256
    back = httpx.post(f"{url}/detokenize", json={"model": "m", "tokens": found.json()["tokens"]})
    assert back.json() == {"prompt": "abc"}


def test_errors_have_openais_shape(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="context is 256") as error:
        client.completions.create(prompt="x" * 300, **GREEDY)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="context is 256"):
        client.chat.completions.create(messages=[{"role": "user", "content": "x" * 300}], **GREEDY)
    with pytest.raises(openai.BadRequestError, match="6500"):
        client.completions.create(prompt="ab", logit_bias={"6500": 1}, **GREEDY)
    with pytest.raises(openai.BadRequestError, match="regex"):
        client.completions.create(prompt="ab", extra_body={"structured_outputs": {"regex": "["}}, **GREEDY)
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError, match="image_url, but the model 'm' takes only text"):
        client.chat.completions.create(messages=[{"role": "user", "content": [image]}], **GREEDY)
    with pytest.raises(openai.BadRequestError, match="99999"):
        client.completions.create(prompt=[99999], **GREEDY)
    assert client.completions.create(prompt="ab", max_tokens=2, **GREEDY).choices[0].text


def test_cached_prefixes_are_counted_until_they_are_dropped(client: Any, url: str) -> None:
    def cached() -> int:
        found = client.completions.create(prompt="p" * 200, max_tokens=1, **GREEDY).usage
        return 0 if found.prompt_tokens_details is None else found.prompt_tokens_details.cached_tokens

    cached()
    assert cached() >= 100
    assert httpx.post(f"{url}/reset_prefix_cache", json={"model": "m"}).status_code == 200
    assert cached() == 0


def test_a_client_that_goes_away_ends_its_request(url: str) -> None:
    handle = serve.get_deployment_handle("LLMServer:m", "default")
    body = {"model": "m", "prompt": "ab", "max_tokens": 250, "stream": True, "ignore_eos": True, "n": 8}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as found:
        lines = found.iter_lines()  # keep a reference, because httpx disconnects when the response is deleted
        next(lines)
        assert handle.load.remote().result()[0] > 0
    wait_for(lambda: handle.load.remote().result() == (0, 0), what="the end of the request")


def test_pause_and_resume(client: Any, url: str) -> None:
    assert httpx.post(f"{url}/pause", json={"model": "m", "options": {"mode": "keep"}}).status_code == 200
    assert httpx.get(f"{url}/is_paused", params={"model": "m"}).json() == {"is_paused": True}
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=1).completions.create(prompt="ab", max_tokens=2, **GREEDY)
    assert httpx.post(f"{url}/resume", json={"model": "m"}).status_code == 200
    assert httpx.get(f"{url}/is_paused", params={"model": "m"}).json() == {"is_paused": False}
    assert client.completions.create(prompt="ab", max_tokens=2, **GREEDY).choices[0].text


def test_sleep_and_wake(client: Any, url: str) -> None:
    """On CPUs, vLLM keeps the memory, but it does not answer until it wakes up."""
    assert httpx.post(f"{url}/sleep", json={"model": "m", "options": {"level": 1}}).status_code == 200
    assert httpx.get(f"{url}/is_sleeping", params={"model": "m"}).json() == {"is_sleeping": True}
    assert httpx.post(f"{url}/wakeup", json={"model": "m"}).status_code == 200
    assert httpx.get(f"{url}/is_sleeping", params={"model": "m"}).json() == {"is_sleeping": False}
    assert client.completions.create(prompt="ab", max_tokens=2, **GREEDY).choices[0].text


def test_calls_of_workers(url: str) -> None:
    body = {"model": "m", "method": "list_loras", "timeout": 30}
    (found,) = httpx.post(f"{url}/collective_rpc", json=body, timeout=60).json()["results"]
    assert found["replica"] == 0 and len(found["worker_results"]) == 1
    wrong = httpx.post(f"{url}/collective_rpc", json={**body, "method": "no_such_method"}, timeout=60)
    assert wrong.status_code >= 400
    assert httpx.get(f"{url}/is_sleeping", params={"model": "none"}).status_code == 404


def test_a_profile_is_written(client: Any, url: str, folder: Path) -> None:
    assert httpx.post(f"{url}/start_profile", json={"model": "m"}, timeout=120).status_code == 200
    client.completions.create(prompt="ab", max_tokens=2, **GREEDY)
    assert httpx.post(f"{url}/stop_profile", json={"model": "m"}, timeout=300).status_code == 200
    assert list((folder.parent / "profile").rglob("*.json*"))
