"""Samples the next token of each answer of a batch, each with its own params and random numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from skate.llm.embedded.structured_output import Form
from skate.llm.errors import BadRequest
from skate.llm.output import TokenLogprob
from skate.llm.sampling import SamplingParams


class Choice:
    """The sampling state of one answer: its params, random numbers and, for penalties, its earlier tokens.

    A step uses one random number regardless of the rest of the batch, so an answer with a seed is reproducible.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt: Sequence[int],
        vocabulary: int,
        seed: int | None,
        form: Form | None = None,
    ) -> None:
        self.params = params
        self.form = form
        self._random = random.Random(seed)
        self._counts: torch.Tensor | None = None
        self._seen: torch.Tensor | None = None
        if params.presence_penalty or params.frequency_penalty:
            self._counts = torch.zeros(vocabulary)
        if params.repetition_penalty != 1:
            self._seen = torch.zeros(vocabulary, dtype=torch.bool)
            self._seen[torch.tensor(prompt)] = True
        self._bias: tuple[torch.Tensor, torch.Tensor] | None = None
        if params.logit_bias:
            self._bias = (
                torch.tensor(list(params.logit_bias)),
                torch.tensor(list(params.logit_bias.values())),
            )
        self.sorts = not params.greedy and (params.top_p < 1 or params.top_k > 0 or params.min_p > 0)
        made = (self._counts, self._seen, self._bias, form)
        self.changes = any(each is not None for each in made)

    def uniform(self) -> float:
        """Return the step's random number, at least 0 and below 1."""
        return self._random.random()

    def change(self, logits: torch.Tensor) -> None:
        """Apply bias and penalties to one row of logits."""
        params = self.params
        if self._bias is not None:
            logits.index_add_(0, self._bias[0], self._bias[1].to(logits.dtype))
        if self._seen is not None:
            by = params.repetition_penalty
            logits.copy_(torch.where(self._seen, torch.where(logits > 0, logits / by, logits * by), logits))
        if self._counts is not None:
            logits.sub_(self._counts, alpha=params.frequency_penalty)
            logits.sub_((self._counts > 0).to(logits.dtype), alpha=params.presence_penalty)
        if self.form is not None:
            self.form.bar(logits)

    def took(self, token: int) -> None:
        """Record a chosen token."""
        if self._counts is not None:
            self._counts[token] += 1
        if self._seen is not None:
            self._seen[token] = True
        if self.form is not None:
            self.form.took(token)

    @property
    def over(self) -> bool:
        """True if the answer's constraint is complete."""
        return self.form is not None and self.form.done


def choose(
    logits: torch.Tensor, choices: Sequence[Choice], barred: Sequence[Sequence[int]]
) -> tuple[list[int], list[TokenLogprob | None], dict[int, Exception]]:
    """Choose a token for each row; return the tokens, their log probabilities where requested, and the errors of
    failed rows.

    A row without a valid choice, because of its params or the model, fails only its own request.

    Args:
        logits: [rows, vocabulary], float32; changed in place.
        choices: one for each row.
        barred: for each row, the tokens that are not allowed now.
    """
    wants = [row for row, each in enumerate(choices) if each.params.logprobs is not None]
    plain = torch.log_softmax(logits[wants], -1) if wants else None
    failed: dict[int, Exception] = {}
    for row, (each, none_of) in enumerate(zip(choices, barred, strict=True)):
        try:
            if each.changes:
                each.change(logits[row])
            if none_of:
                logits[row, list(none_of)] = -torch.inf
        except Exception as error:  # constraints and indices may raise anything
            failed[row] = error
    # The largest logit of a row is finite unless the row has NaN or infinity, or no allowed token.
    good = torch.isfinite(logits.amax(-1))
    if failed or not bool(good.all()):
        for row, fine in enumerate(good.tolist()):
            if not fine:
                failed.setdefault(row, BadRequest("no token can be chosen: the logits are not finite"))
        logits[list(failed)] = 0.0
    tokens: list[int] = logits.argmax(-1).tolist()
    # Separately, because the same random number draws another token from sorted probabilities than from unsorted ones.
    for sorts in (False, True):
        rows = [row for row, each in enumerate(choices) if not each.params.greedy and each.sorts == sorts]
        if rows:
            drawn = _drawn(
                logits[rows] if len(rows) < len(choices) else logits, [choices[row] for row in rows], sorts
            )
            for row, token in zip(rows, drawn, strict=True):
                tokens[row] = token
    for row, (each, token) in enumerate(zip(choices, tokens, strict=True)):
        if each.changes and row not in failed:
            try:
                each.took(token)
            except Exception as error:  # constraints may raise anything
                failed[row] = error
    found: list[TokenLogprob | None] = [None] * len(choices)
    if plain is not None:
        for at, row in enumerate(wants):
            found[row] = _logprob(plain[at], tokens[row], choices[row].params.logprobs or 0)
    return tokens, found, failed


def _drawn(logits: torch.Tensor, choices: Sequence[Choice], sorts: bool) -> list[int]:
    """Draw tokens by inverting the cumulative probabilities at one random number for each row."""
    params = [each.params for each in choices]
    points = torch.tensor([[each.uniform()] for each in choices], dtype=torch.float64)
    scaled = logits / torch.tensor([[each.temperature] for each in params])
    order = None
    if sorts:
        scaled, order = scaled.sort(dim=-1, descending=True, stable=True)
        size = scaled.shape[-1]
        if any(each.top_k > 0 for each in params):
            kept = torch.tensor([[min(each.top_k, size) if each.top_k > 0 else size] for each in params])
            scaled = scaled.masked_fill(torch.arange(size) >= kept, -torch.inf)
    likely = scaled.double().softmax(-1)
    if order is not None:
        before = likely.cumsum(-1) - likely
        nucleus = torch.tensor([[each.top_p] for each in params], dtype=torch.float64)
        least = torch.tensor([[each.min_p] for each in params], dtype=torch.float64) * likely[:, :1]
        # The likeliest token always stays, so that each row has one.
        out = (before >= nucleus) | (likely < least)
        out[:, 0] = False
        likely = likely.masked_fill(out, 0.0)
    upto = likely.cumsum(-1)
    # Rounding may put the point after the last possible token, so take that one at most.
    at = torch.searchsorted(upto, points * upto[:, -1:], right=True)
    at = torch.minimum(at, torch.searchsorted(upto, upto[:, -1:].contiguous()))
    if order is not None:
        at = order.gather(-1, at)
    drawn: list[int] = at.squeeze(-1).tolist()
    return drawn


def _logprob(likely: torch.Tensor, token: int, count: int) -> TokenLogprob:
    top: tuple[tuple[int, float], ...] = ()
    if count:
        best = likely.topk(min(count, likely.shape[-1]))
        top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    return TokenLogprob(token, float(likely[token]), top)
