"""Embeddings, scores and ranks of vLLM, beside those of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from skate.serve.llm import build_openai_app
from tests.vllm import models, pictures, serving

TEXTS = ["a query", "a document", "quite another text"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.cross_encoder(tmp_path_factory.mktemp("model") / "pairs")


@pytest.fixture(scope="module")
def url(pairs: Path) -> Iterator[str]:
    # vLLM's own class for LLaVA needs torchvision, which is not there.
    sees = {"task": "embed", "model_impl": "transformers", "limit_mm_per_prompt": {"image": 1}}
    configs = [
        serving.config(models.text_model(pairs.parent / "text"), "embed", engine_kwargs={"task": "embed"}),
        serving.config(pairs, "pairs", engine_kwargs={"task": "score"}),
        serving.config(models.image_model(pairs.parent / "sees"), "sees", engine_kwargs=sees),
    ]
    with serving.served(build_openai_app({"llm_configs": configs}), cpus=8) as found:
        yield found


def post(url: str, path: str, **body: Any) -> Any:
    found = httpx.post(f"{url}{path}", json=body, timeout=60)
    assert found.status_code == 200, found.text
    return found.json()


def test_embeddings(url: str) -> None:
    with serving.client(url) as client:
        found = client.embeddings.create(model="embed", input=TEXTS)
        vectors = [each.embedding for each in found.data]
        assert [len(each) for each in vectors] == [128] * 3
        assert all(sum(x * x for x in each) == pytest.approx(1, abs=1e-3) for each in vectors)
        again = client.embeddings.create(model="embed", input=TEXTS[0], encoding_format="float")
        assert again.data[0].embedding == pytest.approx(vectors[0], abs=1e-4)
        short = client.embeddings.create(model="embed", input=TEXTS[0], dimensions=8)
        assert len(short.data[0].embedding) == 8
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="embed", input="x" * 300)
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="embed", prompt="ab")


def test_conversations_have_embeddings(url: str) -> None:
    hello = [{"role": "user", "content": "Hi"}]
    prompt = serving.PROMPT.removesuffix("<|assistant|>")
    tokens = post(url, "/tokenize", model="embed", prompt=prompt, add_special_tokens=False)["tokens"]
    wanted = post(url, "/v1/embeddings", model="embed", input=tokens)["data"][0]["embedding"]
    found = post(url, "/v1/embeddings", model="embed", messages=hello)["data"][0]["embedding"]
    assert found == pytest.approx(wanted, abs=1e-3)


def test_images_in_conversations_have_embeddings(url: str) -> None:
    def vector(*parts: dict[str, Any]) -> Any:
        content = [*parts, {"type": "text", "text": "Hi"}]
        body = {"model": "sees", "messages": [{"role": "user", "content": content}]}
        return post(url, "/v1/embeddings", **body)["data"][0]["embedding"]

    red, blue, none = vector(pictures.data("red")), vector(pictures.data("blue")), vector()
    assert vector(pictures.data("red")) == pytest.approx(red, abs=1e-3)
    for one, other in ((red, blue), (red, none)):
        assert sum(x * y for x, y in zip(one, other, strict=True)) < 0.999
    assert (
        httpx.post(
            f"{url}/v1/embeddings",
            json={"model": "embed", "messages": [{"role": "user", "content": [pictures.data("red")]}]},
            timeout=60,
        ).status_code
        == 400
    )


def test_scores_of_embeddings_are_their_similarity(url: str) -> None:
    with serving.client(url) as client:
        one, other = (
            each.embedding for each in client.embeddings.create(model="embed", input=TEXTS[:2]).data
        )
    found = post(url, "/v1/score", model="embed", text_1=TEXTS[0], text_2=[TEXTS[1], TEXTS[0]])
    assert found["data"][0]["score"] == pytest.approx(
        sum(x * y for x, y in zip(one, other, strict=True)), abs=1e-3
    )
    assert found["data"][1]["score"] == pytest.approx(1, abs=1e-3)


def test_scores_of_a_cross_encoder_are_the_models(url: str, pairs: Path) -> None:
    found = post(url, "/v1/score", model="pairs", text_1=TEXTS[0], text_2=TEXTS[1:])
    wanted = [models.pair_score(pairs, TEXTS[0], each) for each in TEXTS[1:]]
    assert [each["score"] for each in found["data"]] == pytest.approx(wanted, abs=1e-3)
    assert abs(wanted[0] - models.pair_score(pairs, TEXTS[1], TEXTS[0])) > 1e-3  # the order matters


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_documents_are_ranked(url: str, pairs: Path, path: str) -> None:
    found = post(url, path, model="pairs", query=TEXTS[0], documents=TEXTS)
    wanted = sorted(((models.pair_score(pairs, TEXTS[0], each), each) for each in TEXTS), reverse=True)
    assert [each["document"]["text"] for each in found["results"]] == [text for _, text in wanted]
    assert [each["relevance_score"] for each in found["results"]] == pytest.approx(
        [score for score, _ in wanted], abs=1e-3
    )
    top = post(url, path, model="pairs", query=TEXTS[0], documents=TEXTS, top_n=1)
    assert [each["index"] for each in top["results"]] == [found["results"][0]["index"]]
