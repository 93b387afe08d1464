"""The pipeline as deployments of Serve: a retriever, a reranker and a generator behind one with the page and the JSON API."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import answers
import index
import ranking
from embedding import Encoder
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from skate import serve

PAGE = Path(__file__).with_name("page.html")
#: The passages that the retriever finds by vectors and by words, and the sources that the reranker keeps.
NEAREST, BY_WORDS, SOURCES = 12, 16, 4
#: Candidates with smaller cosines than this are irrelevant: nine questions unrelated to Python had 0.15 to
#: 0.33, 45 questions of beginners 0.38 and more.
UNRELATED = 0.35
LONGEST_QUESTION = 500  # characters
MODEL_READS = 900  # characters of sources for a language model; the main job's has a context of 512 tokens

web = FastAPI(title="Retrieval over Python's documentation")


class Source(NamedTuple):
    """A retrieved passage. It has no cosine until it is ranked if the index has no vector for it; its score is a fraction
    of the best source's."""

    title: str
    summary: str
    text: str
    by_words: float
    cosine: float | None
    score: float = 0.0


@serve.deployment(max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.5})
class Retriever:
    """Finds candidates: the passages whose vectors are nearest to the question's, and those that share words with it."""

    def __init__(self, folder: str) -> None:
        self.index = index.load(folder)
        self.words = ranking.Words(self.index.passages)
        self.encoder = Encoder()

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.005)
    async def find(self, questions: list[str]) -> list[list[Source]]:
        """Return the candidates for each question; concurrent questions go through the model together."""
        return await asyncio.to_thread(self._find, questions)

    def _find(self, questions: list[str]) -> list[list[Source]]:
        found = []
        for question, cosines in zip(
            questions, self.encoder.vectors(questions) @ self.index.vectors.T, strict=True
        ):
            by_words = self.words.scores(question)
            by_meaning = dict(zip(self.index.embedded.tolist(), cosines.tolist(), strict=True))
            near = sorted(by_meaning, key=lambda which: -by_meaning[which])[:NEAREST]
            found.append([
                Source(*self.index.passages[which][:3], float(by_words[which]), by_meaning.get(which))
                for which in dict.fromkeys([*self.words.best(by_words, BY_WORDS), *near])
            ])  # fmt: skip
        return found


@serve.deployment(max_ongoing_requests=16, ray_actor_options={"num_cpus": 0.5})
class Reranker:
    """Selects the best candidates: the cosine of each with the question is added to its score by words and popularity."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    async def rank(self, question: str, candidates: list[Source]) -> list[Source]:
        """Return the sources for an answer, best first; none if all are irrelevant."""
        return await asyncio.to_thread(self._rank, question, candidates)

    def _rank(self, question: str, candidates: list[Source]) -> list[Source]:
        new = [which for which, each in enumerate(candidates) if each.cosine is None]
        texts = [index.embedded_text(candidates[which].title, candidates[which].summary) for which in new]
        asked, *vectors = self.encoder.vectors([question, *texts])
        cosines = [each.cosine or 0.0 for each in candidates]
        for which, vector in zip(new, vectors, strict=True):
            cosines[which] = float(vector @ asked)
        if max(cosines, default=0.0) < UNRELATED:
            return []
        scores = [
            each.by_words + ranking.COSINE * cosine for each, cosine in zip(candidates, cosines, strict=True)
        ]
        best = sorted(range(len(scores)), key=lambda which: -scores[which])[:SOURCES]
        return [
            candidates[which]._replace(cosine=cosines[which], score=scores[which] / scores[best[0]])
            for which in best
        ]


@serve.deployment(max_ongoing_requests=8, ray_actor_options={"num_cpus": 0.5})
class Sentences:
    """Generates without a language model: the most relevant sentences of the sources, each with the number of
    its source."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    def who(self) -> dict[str, str]:
        """Identify the source of the answers, for readers."""
        return {"kind": "sentences", "name": "sentences of the sources, word for word"}

    def write(self, question: str, sources: list[Source]) -> Iterator[str]:
        """Yield the pieces of the answer as they are found."""
        for sentence, which in answers.extract(
            self.encoder, question, [(each.title, each.text) for each in sources]
        ):
            yield f"{sentence} [{which + 1}] "


@serve.deployment(max_ongoing_requests=8, ray_actor_options={"num_cpus": 0.1})
class Model:
    """Generates with a language model: queries a deployment of Serve LLM with the sources before the question."""

    def __init__(self, llm: Any, name: str) -> None:
        self.llm = llm.options(stream=True)
        self.name = name

    def who(self) -> dict[str, str]:
        """Identify the source of the answers, for readers."""
        return {"kind": "model", "name": self.name}

    async def write(self, question: str, sources: list[Source]) -> AsyncIterator[str]:
        """Yield the pieces of the answer as the model generates them."""
        # Imported only if the model is used: it imports all of Serve LLM.
        from skate.serve.llm.openai_api_models import ChatCompletionRequest

        text, room = "", MODEL_READS // max(1, len(sources))
        for number, source in enumerate(sources, start=1):
            text += f"[{number}] {source.title}: {source.text[:room]}\n\n"
        message = {"role": "user", "content": f"{text}Question: {question}\nAnswer:"}
        request = ChatCompletionRequest(
            model=self.name,
            messages=[message],
            stream=True,
            max_tokens=120,
            temperature=0.7,
            top_p=0.9,
            seed=7,
        )
        async for events in self.llm.chat.remote(request):
            if not isinstance(events, str):
                raise RuntimeError(f"the language model refused: {events}")
            for event in events.split("\n\n"):
                if event.startswith("data: {"):
                    said = json.loads(event[len("data: ") :])
                    if "error" in said:
                        raise RuntimeError(f"the language model failed: {said['error']}")
                    for choice in said.get("choices", []):
                        yield choice["delta"].get("content") or ""


class Refused(ValueError):
    """An invalid question."""


@serve.deployment(max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.1})
@serve.ingress(web)
class Pipeline:
    """The page and its API: retrieve, rerank, generate."""

    def __init__(self, retriever: Any, reranker: Any, generator: Any) -> None:
        self.retriever, self.reranker, self.generator = retriever, reranker, generator

    @web.get("/", response_class=HTMLResponse)
    def page(self) -> str:
        """Return the page."""
        return PAGE.read_text(encoding="utf-8")

    @web.post("/api/ask")
    async def ask(self, request: Request) -> Any:
        """Answer {"question": ...}, as one object, or with "stream": true as a line of JSON for each event."""
        try:
            question, stream = asked(await request.body())
        except Refused as problem:
            return JSONResponse({"error": str(problem)}, status_code=400)
        events = self.answer(question)
        if stream:
            return StreamingResponse(lines(events), media_type="application/x-ndjson")
        whole: dict[str, Any] = {"question": question, "answer": ""}
        try:
            async for event in events:
                if event.pop("event") == "text":
                    whole["answer"] += event["text"]
                else:
                    whole |= event
        except Exception as problem:  # any error of a deployment is sent to the client
            return JSONResponse({"error": told(problem)}, status_code=500)
        return {**whole, "answer": whole["answer"].strip()}

    async def answer(self, question: str) -> AsyncIterator[dict[str, Any]]:
        """Yield events as they happen: the sources, pieces of text, and the duration of each step."""
        began = time.perf_counter()
        candidates = await self.retriever.find.remote(question)
        found = time.perf_counter()
        sources = await self.reranker.rank.remote(question, candidates)
        ranked = time.perf_counter()
        shown = [
            {"number": number, "title": each.title, "text": each.text}
            | {"score": round(each.score, 3), "cosine": round(each.cosine or 0.0, 3)}
            for number, each in enumerate(sources, start=1)
        ]
        yield {"event": "sources", "sources": shown, "writer": await self.generator.who.remote()}
        if sources:
            async for piece in self.generator.options(stream=True).write.remote(question, sources):
                yield {"event": "text", "text": piece}
        else:
            yield {"event": "text", "text": "Nothing in the documentation that was indexed is about this."}
        done = time.perf_counter()
        seconds = {"retrieve": found - began, "rerank": ranked - found, "write": done - ranked}
        yield {"event": "done", "seconds": {step: round(took, 3) for step, took in seconds.items()}}


def asked(body: bytes) -> tuple[str, bool]:
    """Return the question in a body, and True if the answer is to be streamed. Raises Refused."""
    try:
        said = json.loads(body)
    except ValueError:
        raise Refused('the body is to be JSON, such as {"question": "How do I copy a file?"}') from None
    question = said.get("question") if isinstance(said, dict) else None
    if not isinstance(question, str) or not question.strip():
        raise Refused('"question" is missing or empty; ask something')
    if len(question) > LONGEST_QUESTION:
        raise Refused(f"a question may have {LONGEST_QUESTION} characters, this one has {len(question)}")
    return question.strip(), said.get("stream") is True


async def lines(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Yield events as lines of JSON; an error is also an event, because the status has already been sent."""
    try:
        async for event in events:
            yield json.dumps(event) + "\n"
    except Exception as problem:  # any error of a deployment is sent to the client
        yield json.dumps({"event": "error", "error": told(problem)}) + "\n"


def told(problem: Exception) -> str:
    """Format a deployment's error in one line: the original error without its wrappers."""
    cause = getattr(problem, "cause", None) or problem
    return (str(cause).strip() or type(cause).__name__).splitlines()[-1]


def application(folder: str, generator: Any = None) -> Any:
    """Build the pipeline over the index of a folder; `generator` is a bound deployment, or None for sentences
    of the sources."""
    return Pipeline.bind(Retriever.bind(folder), Reranker.bind(), generator or Sentences.bind())


def language_model(folder: str) -> Any:
    """Build a generator from a model folder, such as the main job's, on the embedded engine."""
    # Imported only if the model is used: it imports all of Serve LLM.
    from skate.serve.llm import LLMConfig, build_llm_deployment

    name = Path(folder).resolve().name
    config = LLMConfig(
        model_loading_config={"model_id": name, "model_source": folder},
        llm_engine="embedded",
        engine_kwargs={"max_num_seqs": 4, "num_threads": 1},
        deployment_config={"num_replicas": 1, "ray_actor_options": {"num_cpus": 1}},
    )
    return Model.bind(build_llm_deployment(config), name)
