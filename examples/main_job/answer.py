"""Serve: the trained model behind OpenAI's API with a chat page, and a client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from skate import serve
from skate.serve.llm import LLMConfig, build_openai_app

if TYPE_CHECKING:
    from questions import Pair

MODEL = "documentation-gpt"
#: Questions in phrasings that are not trained, and one about something else.
QUESTIONS = (
    "Can you explain what str.upper does?",
    "How would I choose a random element from a non-empty sequence?",
    "Please describe list.append.",
    "Is there a function that deletes a directory tree?",
    "What is the capital of France?",
)
PAGE = Path(__file__).with_name("page.html")

web = FastAPI()


@serve.deployment(ray_actor_options={"num_cpus": 0})
@serve.ingress(web)
class Page:
    """A page that queries the model and shows the answer as it arrives."""

    @web.get("/", response_class=HTMLResponse)
    def show(self) -> str:
        """Return the page."""
        return PAGE.read_text(encoding="utf-8")


class Answered(NamedTuple):
    """A client's measurements of one answer."""

    tokens: int
    first_seconds: float
    seconds: float


def start(model_folder: str, port: int) -> str:
    """Serve the model and the page on one port; return the address."""
    config = LLMConfig(
        model_loading_config={"model_id": MODEL, "model_source": model_folder},
        llm_engine="embedded",
        engine_kwargs={"max_model_len": 512, "max_num_seqs": 8, "num_threads": 1},
        deployment_config={"num_replicas": 1, "ray_actor_options": {"num_cpus": 1}},
    )
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(build_openai_app({"llm_configs": [config]}), name="model", route_prefix="/api")
    serve.run(Page.bind(), name="page", route_prefix="/")
    return f"http://127.0.0.1:{port}"


def ask(address: str, question: str, most_tokens: int = 60) -> Iterator[str | Answered]:
    """Query the model like any program with OpenAI's client; yield pieces of the answer as they arrive, then
    the measurements."""
    from openai import OpenAI

    began = time.perf_counter()
    first, tokens = 0.0, 0
    with OpenAI(base_url=f"{address}/api/v1", api_key="none is needed") as client:
        stream = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": question}],
            max_tokens=most_tokens,
            temperature=0,
            stream=True,
            # Tokens generated in quick succession share an event, so the server reports their number.
            stream_options={"include_usage": True},
        )
        for event in stream:
            tokens = event.usage.completion_tokens if event.usage else tokens
            text = event.choices[0].delta.content if event.choices else None
            if text:
                first = first or time.perf_counter() - began
                yield text
    yield Answered(tokens, first, time.perf_counter() - began)


def right(address: str, pairs: list[Pair]) -> int:
    """Ask all questions, eight at a time, and return how many answers have the right first sentence."""
    with ThreadPoolExecutor(8) as threads:
        given = threads.map(lambda pair: whole(address, pair.question), pairs)
        return sum(
            first_sentence(text) == first_sentence(pair.answer)
            for text, pair in zip(given, pairs, strict=True)
        )


def whole(address: str, question: str) -> str:
    """Return an answer when all of it has arrived."""
    return "".join(piece for piece in ask(address, question) if isinstance(piece, str))


def first_sentence(text: str) -> str:
    """Return the text up to the first full stop that ends a sentence."""
    return text.split(". ")[0].rstrip(".").strip()
