"""Scores of pairs of texts, and documents by their scores: by the model if it scores pairs, otherwise by embeddings."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from skate.llm.engine import Engine, embeds_for, scores_pairs
from skate.llm.openai import request_checks
from skate.llm.openai.requests import RerankRequest, ScoreRequest
from skate.llm.openai.responses import (
    RerankDocument,
    RerankResponse,
    RerankResult,
    RerankUsage,
    ScoreData,
    ScoreResponse,
    Usage,
)
from skate.llm.output import Score


@dataclass(frozen=True)
class Scorer:
    """Scores pairs of texts for a client.

    Args:
        engine: the model.
        tokens: converts texts to tokens.
        adapter: the LoRA adapter to use.
        client: the client of the request.
    """

    engine: Engine
    tokens: Callable[[Sequence[str]], Awaitable[list[list[int]]]]
    adapter: str | None
    client: str

    async def scores(self, request_id: str, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """Return the score of each pair."""
        if scores_pairs(self.engine):
            score = self.engine.score
            return await asyncio.gather(
                *(
                    score(one, other, f"{request_id}-{at}", self.adapter)
                    for at, (one, other) in enumerate(pairs)
                )
            )
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        embed = embeds_for(self.client, self.engine)
        tokens = await self.tokens(texts)
        made = await asyncio.gather(
            *(embed(each, f"{request_id}-{at}", self.adapter) for at, each in enumerate(tokens))
        )
        vectors = dict(zip(texts, made, strict=True))
        found = []
        for one, other in pairs:
            both = vectors[one], vectors[other]
            value = sum(x * y for x, y in zip(both[0].vector, both[1].vector, strict=True))
            found.append(Score(value, sum(each.prompt_tokens for each in both)))
        return found


async def of_pairs(request: ScoreRequest, scorer: Scorer, model: str) -> ScoreResponse:
    """Answer a score request."""
    one, other = request_checks.pairs_of(request.text_1, request.text_2)
    request_id = f"score-{request.request_id or uuid.uuid4().hex}"
    found = await scorer.scores(request_id, list(zip(one, other, strict=True)))
    return ScoreResponse(
        id=request_id,
        model=request.model or model,
        data=[ScoreData(index=index, score=each.value) for index, each in enumerate(found)],
        usage=Usage.of(sum(each.prompt_tokens for each in found), 0),
    )


async def of_documents(request: RerankRequest, scorer: Scorer, model: str) -> RerankResponse:
    """Answer a rerank request: the documents in the order of their scores, the best first."""
    _, documents = request_checks.pairs_of(request.query, request.documents)
    request_id = f"rerank-{request.request_id or uuid.uuid4().hex}"
    found = await scorer.scores(request_id, [(request.query, each) for each in documents])
    order = sorted(range(len(found)), key=lambda index: -found[index].value)
    count = sum(each.prompt_tokens for each in found)
    return RerankResponse(
        id=request_id,
        model=request.model or model,
        usage=RerankUsage(prompt_tokens=count, total_tokens=count),
        results=[
            RerankResult(
                index=index,
                document=RerankDocument(text=documents[index]),
                relevance_score=found[index].value,
            )
            for index in order[: request.top_n or None]
        ],
    )
