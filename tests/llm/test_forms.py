"""Structured output, regardless of the model's preferences: JSON of a schema, choices, regular expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from skate.llm.embedded import structured_output

HELLO: list[Any] = [{"role": "user", "content": "Hi"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Oslo"]},
        "people": {"type": "integer", "minimum": 1, "maximum": 99},
        "warm": {"type": "boolean"},
    },
    "required": ["city", "people", "warm"],
    "additionalProperties": False,
}
needs_llguidance = pytest.mark.skipif(
    not structured_output.is_installed("llguidance"), reason="llguidance is not installed"
)


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
        yield made


def form(schema: dict[str, Any]) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}


@needs_llguidance
@pytest.mark.parametrize("seed", [1, 2])
def test_an_answer_is_json_of_the_schema(client: openai.OpenAI, seed: int) -> None:
    params: dict[str, Any] = {
        "model": "tiny",
        "messages": HELLO,
        "max_tokens": 120,
        "seed": seed,
        "temperature": 2,
    }
    found = client.chat.completions.create(**params, response_format=form(SCHEMA)).choices[0]
    place = json.loads(found.message.content or "")
    assert (
        place["city"] in ("Rome", "Oslo") and 1 <= place["people"] <= 99 and isinstance(place["warm"], bool)
    )
    assert set(place) == {"city", "people", "warm"} and found.finish_reason == "stop"
    parts = [
        choice.delta.content or ""
        for chunk in client.chat.completions.create(**params, response_format=form(SCHEMA), stream=True)
        for choice in chunk.choices
    ]
    assert json.loads("".join(parts)) == place


@needs_llguidance
def test_any_object_a_choice_and_an_expression(client: openai.OpenAI) -> None:
    params: dict[str, Any] = {"model": "tiny", "max_tokens": 40, "temperature": 1.5, "seed": 3}
    generated = client.chat.completions.create(
        messages=HELLO, response_format={"type": "json_object"}, **params
    )
    assert (generated.choices[0].message.content or "").lstrip().startswith("{")
    for given, wanted in (({"choice": ["yes", "no."]}, r"yes|no\."), ({"regex": "[ab]{5}c"}, "[ab]{5}c")):
        found = client.completions.create(prompt="ab", extra_body={"structured_outputs": given}, **params)
        assert re.fullmatch(wanted, found.choices[0].text) and found.choices[0].finish_reason == "stop"


@needs_llguidance
@pytest.mark.parametrize(
    ("body", "match"),
    [
        ({"structured_outputs": {"json": {"type": "nothing"}}}, "the constraint is invalid"),
        ({"structured_outputs": {"regex": "("}}, "the constraint is invalid"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "one of json"),
        ({"structured_outputs": {"shape": "round"}}, "one of json"),
    ],
)
def test_forms_that_cannot_be_are_the_callers_error(client: openai.OpenAI, body: Any, match: str) -> None:
    with pytest.raises(openai.BadRequestError, match=match):
        client.completions.create(model="tiny", prompt="ab", extra_body=body)


def test_without_the_library_a_form_is_refused_with_what_to_install(
    client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured_output, "is_installed", lambda name: False)
    monkeypatch.setattr(structured_output.Forms, "_made", None, raising=False)
    with pytest.raises(openai.BadRequestError, match="pip install llguidance"):
        # The model without a template, which no other test asks for a form.
        client.completions.create(
            model="plain:model", prompt="ab", extra_body={"structured_outputs": {"json_object": True}}
        )
