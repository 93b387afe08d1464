"""Log probabilities in the formats of OpenAI's chat and completions APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.llm.engine import Text
from skate.llm.output import TokenLogprob

#: OpenAI's value for an impossible token.
_LEAST = -9999.0


def of_chat(found: Sequence[TokenLogprob], text: Text) -> dict[str, Any]:
    """Format for a chat: each token with its bytes, and the likeliest alternatives."""
    content = [
        {
            **_token(each.token, each.logprob, text),
            "top_logprobs": [_token(token, value, text) for token, value in each.top],
        }
        for each in found
    ]
    return {"content": content, "refusal": None}


def _token(token: int, value: float, text: Text) -> dict[str, Any]:
    return {"token": text.token(token), "logprob": max(value, _LEAST), "bytes": text.token_bytes(token)}


def of_completion(found: Sequence[TokenLogprob], text: Text, offset: int) -> tuple[dict[str, Any], int]:
    """Format for a completion, where the first token begins at `offset`; return the log probabilities and the end."""
    tokens = [text.token(each.token) for each in found]
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    logprobs = {
        "tokens": tokens,
        "token_logprobs": [max(each.logprob, _LEAST) for each in found],
        "top_logprobs": [{text.token(t): max(v, _LEAST) for t, v in each.top} for each in found],
        "text_offset": offsets,
    }
    return logprobs, offset


def of_prompt(
    tokens: Sequence[int], found: Sequence[TokenLogprob | None], text: Text, most: int
) -> tuple[dict[str, Any], int]:
    """Format for the echoed prompt of a completion with at most `most` alternatives beside each token.

    The first token has no probability.
    """
    known = [
        TokenLogprob(token, 0.0) if each is None else _cut(each, most)
        for token, each in zip(tokens, found, strict=True)
    ]
    logprobs, end = of_completion(known, text, 0)
    for at, each in enumerate(found):
        if each is None:
            logprobs["token_logprobs"][at] = logprobs["top_logprobs"][at] = None
    return logprobs, end


def _cut(found: TokenLogprob, most: int) -> TokenLogprob:
    top = [each for at, each in enumerate(found.top) if at < most or each[0] == found.token]
    return TokenLogprob(found.token, found.logprob, tuple(top))


def of_whole(
    tokens: Sequence[int],
    prompt: Sequence[TokenLogprob | None] | None,
    answer: Sequence[TokenLogprob],
    text: Text,
    most: int,
) -> dict[str, Any]:
    """Format for a completion that is complete, with the echoed prompt if its log probabilities are given."""
    if prompt is None:
        return of_completion(answer, text, 0)[0]
    one, end = of_prompt(tokens, prompt, text, most)
    other, _ = of_completion(answer, text, end)
    return {name: one[name] + other[name] for name in one}


def of_vllm(found: Sequence[TokenLogprob | None] | None, text: Text) -> list[dict[str, Any] | None] | None:
    """Format as vLLM's `prompt_logprobs`: by token, the token of the prompt first; null for the first token."""
    if found is None:
        return None
    return [None if each is None else _by_token(each, text) for each in found]


def _by_token(found: TokenLogprob, text: Text) -> dict[str, Any]:
    ranked = zip(found.top, found.ranks, strict=True)
    first = sorted(
        ranked, key=lambda each: each[0][0] != found.token
    )  # the sort keeps the order of the others
    return {
        str(token): {"logprob": max(value, _LEAST), "rank": rank, "decoded_token": text.token(token)}
        for (token, value), rank in first
    }
