"""Samples the next token of each answer of a batch, each with its own params and random numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy
import torch

from skate.llm.embedded.structured_output import Form
from skate.llm.errors import BadRequest
from skate.llm.output import TokenLogprob
from skate.llm.sampling import SamplingParams

#: The tokens among which a draw with top_p or min_p is tried before all are sorted.
_BEST = 256


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
    # The largest logit of a row is finite unless the row has NaN or infinity, or no allowed token. numpy finds it ten
    # times faster than torch, and finds NaN first.
    best = logits.numpy().argmax(-1)
    good = numpy.isfinite(numpy.take_along_axis(logits.numpy(), best[:, None], -1)[:, 0])
    if failed or not good.all():
        for row, fine in enumerate(good.tolist()):
            if not fine:
                failed.setdefault(row, BadRequest("no token can be chosen: the logits are not finite"))
        logits[list(failed)] = 0.0
        best[list(failed)] = 0
    tokens: list[int] = best.tolist()
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


def prompt_logprobs(logits: torch.Tensor, tokens: Sequence[int], count: int) -> list[TokenLogprob | None]:
    """Return the log probability of each token with those of the `count` likeliest, by the logits before it."""
    if not tokens:
        return []
    likely = torch.log_softmax(logits, -1)
    own = likely.gather(-1, torch.tensor(tokens).unsqueeze(-1))
    ranks = ((likely > own).sum(-1) + 1).tolist()
    best = likely.topk(min(count, likely.shape[-1]))
    found: list[TokenLogprob | None] = []
    rows = zip(
        tokens, own.squeeze(-1).tolist(), ranks, best.indices.tolist(), best.values.tolist(), strict=True
    )
    for token, value, rank, others, values in rows:
        ranked = {other: (each, at) for at, (other, each) in enumerate(zip(others, values, strict=True), 1)}
        ranked.setdefault(token, (value, rank))
        top = tuple((other, each) for other, (each, _) in ranked.items())
        found.append(TokenLogprob(token, value, top, tuple(at for _, at in ranked.values())))
    return found


def _drawn(logits: torch.Tensor, choices: Sequence[Choice], sorts: bool) -> list[int]:
    """Draw tokens by inverting the cumulative probabilities at one random number for each row."""
    params = [each.params for each in choices]
    points = torch.tensor([[each.uniform()] for each in choices], dtype=torch.float64)
    scaled = logits / torch.tensor([[each.temperature] for each in params])
    if not sorts:
        drawn: list[int] = _inverted(scaled.double().softmax(-1), points).squeeze(-1).tolist()
        return drawn
    tokens, complete = _drawn_of_best(scaled, params, points)
    rest = [row for row, each in enumerate(complete) if not each]
    if rest:
        order, likely = _all_sorted(scaled[rest], [params[row] for row in rest])
        at = _inverted(_nucleus(likely, [params[row] for row in rest]), points[rest])
        for row, token in zip(rest, order.gather(-1, at).squeeze(-1).tolist(), strict=True):
            tokens[row] = token
    return tokens


def _drawn_of_best(
    scaled: torch.Tensor, params: Sequence[SamplingParams], points: torch.Tensor
) -> tuple[list[int], list[bool]]:
    """Draw among the likeliest tokens, because sorting a whole vocabulary takes longer than the model.

    Returns:
        The tokens, and for each row True if no other token could have been drawn; the token is void otherwise.
    """
    size = scaled.shape[-1]
    count = max(_BEST, 2 * max(each.top_k for each in params))
    if 4 * count > size:
        return [0] * len(params), [False] * len(params)
    # `topk` leaves the order of equal values open; sorted by token first, it is that of a stable sort of all.
    order = scaled.topk(count, dim=-1, sorted=False).indices.sort(dim=-1).values
    best, places = scaled.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, places)
    # Tokens as likely as the last of the best may be missing, so only those above it are certain.
    certain = (best > best[:, -1:]).sum(-1, keepdim=True)
    kept = torch.tensor([[each.top_k if each.top_k > 0 else size] for each in params])
    largest = best[:, :1].double()
    powers = (best.double() - largest).exp().masked_fill(torch.arange(count) >= kept, 0.0)
    total = powers.sum(-1, keepdim=True)
    if any(each.top_k <= 0 for each in params):
        total = torch.where(kept < size, total, (scaled.double() - largest).exp().sum(-1, keepdim=True))
    likely = powers / total
    chosen = _nucleus(likely, params)
    # Probabilities fall, so nothing behind the first token without one is left.
    complete = (chosen > 0).sum(-1, keepdim=True) <= certain - 1
    complete |= kept <= certain
    tokens: list[int] = order.gather(-1, _inverted(chosen, points)).squeeze(-1).tolist()
    return tokens, complete.squeeze(-1).tolist()


def _all_sorted(scaled: torch.Tensor, params: Sequence[SamplingParams]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all tokens, the likeliest first, and their probabilities among the best `top_k`."""
    scaled, order = scaled.sort(dim=-1, descending=True, stable=True)
    size = scaled.shape[-1]
    if any(each.top_k > 0 for each in params):
        kept = torch.tensor([[min(each.top_k, size) if each.top_k > 0 else size] for each in params])
        scaled = scaled.masked_fill(torch.arange(size) >= kept, -torch.inf)
    return order, scaled.double().softmax(-1)


def _nucleus(likely: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Return sorted probabilities without those that `top_p` and `min_p` exclude."""
    before = likely.cumsum(-1) - likely
    nucleus = torch.tensor([[each.top_p] for each in params], dtype=torch.float64)
    least = torch.tensor([[each.min_p] for each in params], dtype=torch.float64) * likely[:, :1]
    # The likeliest token always stays, so that each row has one.
    out = (before >= nucleus) | (likely < least)
    out[:, 0] = False
    return likely.masked_fill(out, 0.0)


def _inverted(likely: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Return the place at which the cumulative probabilities pass a part of their total, [rows, 1]."""
    upto = likely.cumsum(-1)
    # Rounding may put the point after the last possible token, so take that one at most.
    at = torch.searchsorted(upto, points * upto[:, -1:], right=True)
    return torch.minimum(at, torch.searchsorted(upto, upto[:, -1:].contiguous()))


def _logprob(likely: torch.Tensor, token: int, count: int) -> TokenLogprob:
    top: tuple[tuple[int, float], ...] = ()
    if count:
        best = likely.topk(min(count, likely.shape[-1]))
        top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    return TokenLogprob(token, float(likely[token]), top)
