"""Distributions of actions in torch, by their own formulas.

``torch.distributions`` checks and broadcasts at every construction, which costs more than the forward pass of
a small network. The tests hold these formulas equal to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from skate.rllib.core.distribution.distribution import Distribution
from skate.rllib.utils.numpy import leaves_of

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_HALF_LOG_TWO_PI_E = 0.5 + _HALF_LOG_TWO_PI
# A squashed Gaussian outside of these bounds saturates its tanh, or has no exploration left.
_LOG_STD_MIN = -5.0
_LOG_STD_MAX = 2.0
_EDGE = 1e-6


class TorchDistribution(Distribution):
    """A distribution over torch tensors."""

    def sample_and_logp(
        self, *, sample_shape: tuple[int, ...] | None = None, generator: torch.Generator | None = None
    ) -> tuple[Any, Tensor]:
        """Draw actions and return them with their log-likelihoods."""
        drawn = self.sample(sample_shape=sample_shape, generator=generator)
        return drawn, self.logp(drawn)

    def rsample_and_logp(
        self, *, sample_shape: tuple[int, ...] | None = None, generator: torch.Generator | None = None
    ) -> tuple[Any, Tensor]:
        """Draw actions with gradients and return them with their log-likelihoods."""
        drawn = self.rsample(sample_shape=sample_shape, generator=generator)
        return drawn, self.logp(drawn)


class TorchCategorical(TorchDistribution):
    """One of K actions per row.

    Args:
        logits: Unnormalized log-probabilities, shape ``(..., K)``.
        probs: Probabilities instead of logits. Exactly one of the two is given.

    Raises:
        ValueError: both or neither are given.
    """

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        if (logits is None) == (probs is None):
            raise ValueError("TorchCategorical takes either logits or probs; give exactly one")
        self.probs = probs
        self.logits = logits

    @classmethod
    def from_logits(cls, logits: Tensor, **kwargs: Any) -> TorchCategorical:
        return cls(logits=logits, **kwargs)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        return int(space.n)

    @functools.cached_property
    def log_probs(self) -> Tensor:
        """Normalized log-probabilities, shape ``(..., K)``."""
        if self.logits is not None:
            return torch.log_softmax(self.logits, dim=-1)
        assert self.probs is not None
        smallest = torch.finfo(self.probs.dtype).tiny
        return (self.probs / self.probs.sum(-1, keepdim=True)).clamp_min(smallest).log()

    def sample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        scores = self.logits if self.logits is not None else self.log_probs
        if scores.requires_grad:
            scores = scores.detach()
        if sample_shape:
            scores = scores.expand(*sample_shape, *scores.shape)
        # The largest of logits plus Gumbel noise is distributed as the softmax of the logits.
        noise = torch.empty_like(scores, memory_format=torch.contiguous_format)
        return (scores - noise.exponential_(generator=generator).log_()).argmax(-1)

    def rsample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        drawn = self.sample(sample_shape=sample_shape, generator=generator)
        probs = self.log_probs.exp()
        one_hot = functional.one_hot(drawn, probs.shape[-1]).to(probs.dtype)
        return (one_hot - probs).detach() + probs

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        return self.log_probs.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, **kwargs: Any) -> Tensor:
        return _plogp(self.log_probs, self.log_probs).neg()

    def kl(self, other: TorchCategorical, **kwargs: Any) -> Tensor:
        return _plogp(self.log_probs, self.log_probs - other.log_probs)

    def to_deterministic(self) -> TorchDeterministic:
        scores = self.logits if self.logits is not None else self.probs
        assert scores is not None
        return TorchDeterministic(loc=scores.argmax(-1))


def _plogp(log_probs: Tensor, values: Tensor) -> Tensor:
    """Return the expectation of ``values``; an action that is masked out (minus infinity) counts for nothing."""
    probs = log_probs.exp()
    return torch.where(probs > 0, probs * values, torch.zeros_like(probs)).sum(-1)


class TorchDiagGaussian(TorchDistribution):
    """A Gaussian with independent dimensions.

    Args:
        loc: Means, shape ``(..., D)``.
        scale: Standard deviations, the same shape.
    """

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        self.loc = loc
        self.scale = scale

    @classmethod
    def from_logits(cls, logits: Tensor, **kwargs: Any) -> Any:
        loc, log_std = logits.chunk(2, dim=-1)
        return cls(loc=loc, scale=log_std.exp())

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        return 2 * int(np.prod(space.shape))

    def sample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        with torch.no_grad():
            return self._draw(sample_shape, generator)

    def rsample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        return self._draw(sample_shape, generator)

    def _draw(self, sample_shape: tuple[int, ...] | None, generator: torch.Generator | None) -> Tensor:
        shape = (*(sample_shape or ()), *self.loc.shape)
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device, generator=generator)
        return self.loc + self.scale * noise

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        squares = ((value - self.loc) / self.scale) ** 2
        return -(0.5 * squares + self.scale.log() + _HALF_LOG_TWO_PI).sum(-1)

    def entropy(self, **kwargs: Any) -> Tensor:
        return (self.scale.log() + _HALF_LOG_TWO_PI_E).sum(-1)

    def kl(self, other: TorchDiagGaussian, **kwargs: Any) -> Tensor:
        ratio = (self.scale / other.scale) ** 2
        shift = ((self.loc - other.loc) / other.scale) ** 2
        return (0.5 * (ratio + shift - 1.0 - ratio.log())).sum(-1)

    def to_deterministic(self) -> TorchDeterministic:
        return TorchDeterministic(loc=self.loc)


class TorchSquashedGaussian(TorchDiagGaussian):
    """A Gaussian pressed into bounds by tanh.

    Args:
        loc: Means before squashing, shape ``(..., D)``.
        scale: Standard deviations before squashing.
        low: Lower bound of the actions.
        high: Upper bound of the actions.
    """

    def __init__(self, loc: Tensor, scale: Tensor, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__(loc, scale)
        self.low = low
        self.high = high

    #: The scale and its logarithm, if the distribution was made of that.
    _scale_and_log: tuple[Tensor, Tensor] | None = None

    @classmethod
    def from_logits(cls, logits: Tensor, low: float = -1.0, high: float = 1.0, **kwargs: Any) -> Any:
        loc, log_std = logits.chunk(2, dim=-1)
        log_scale = log_std.clamp(_LOG_STD_MIN, _LOG_STD_MAX)
        made = cls(loc=loc, scale=log_scale.exp(), low=low, high=high)
        made._scale_and_log = made.scale, log_scale
        return made

    def sample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        return self._squash(super().sample(sample_shape=sample_shape, generator=generator))

    def rsample(
        self,
        *,
        sample_shape: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        return self._squash(self._draw(sample_shape, generator))

    def sample_and_logp(
        self, *, sample_shape: tuple[int, ...] | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self.rsample_and_logp(sample_shape=sample_shape, generator=generator)

    def rsample_and_logp(
        self, *, sample_shape: tuple[int, ...] | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        shape = (*(sample_shape or ()), *self.loc.shape)
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device, generator=generator)
        raw = self.loc + self.scale * noise
        # The likelihood comes from the value before tanh: the way back from a saturated action loses all digits. How
        # many deviations that value is from the mean is the noise itself.
        known = self._scale_and_log
        log_scale = known[1] if known is not None and known[0] is self.scale else self.scale.log()
        density = noise * noise * -0.5 - (_HALF_LOG_TWO_PI + 2.0 * math.log(2.0))
        # What is left of the logarithm of tanh's slope, 2 (log 2 - raw - softplus(-2 raw)).
        slope = (raw + functional.softplus(-2.0 * raw)) * 2.0
        return self._squash(raw), (density - log_scale + slope).sum(-1)

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        unit = (value - self.low) / (self.high - self.low) * 2.0 - 1.0
        return self._logp_of_raw(torch.atanh(unit.clamp(-1.0 + _EDGE, 1.0 - _EDGE)))

    def _logp_of_raw(self, raw: Tensor) -> Tensor:
        slope = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
        return super().logp(raw) - slope.sum(-1)

    def _squash(self, raw: Tensor) -> Tensor:
        if self.low == -1.0 and self.high == 1.0:
            return torch.tanh(raw)
        unit = (torch.tanh(raw) + 1.0) / 2.0
        return (unit * (self.high - self.low) + self.low).clamp(self.low, self.high)

    def entropy(self, **kwargs: Any) -> Tensor:
        raise ValueError("the entropy of TorchSquashedGaussian has no closed form; use -logp of samples")

    def kl(self, other: Any, **kwargs: Any) -> Tensor:
        raise ValueError(
            "the KL divergence of TorchSquashedGaussian is not available; use a TorchDiagGaussian"
        )

    def to_deterministic(self) -> TorchDeterministic:
        # The mean before tanh is no action: it may lie outside of the bounds.
        return TorchDeterministic(loc=self._squash(self.loc))


class TorchDeterministic(TorchDistribution):
    """Always the same action.

    Args:
        loc: The actions, one per row.
    """

    def __init__(self, loc: Tensor) -> None:
        self.loc = loc

    @classmethod
    def from_logits(cls, logits: Tensor, **kwargs: Any) -> TorchDeterministic:
        return cls(loc=logits)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        return int(np.prod(space.shape))

    def sample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Tensor:
        return self.loc.expand(*sample_shape, *self.loc.shape) if sample_shape else self.loc

    def rsample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Tensor:
        raise NotImplementedError("TorchDeterministic has no reparameterized sample; use sample()")

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        return torch.zeros_like(self.loc)

    def entropy(self, **kwargs: Any) -> Tensor:
        raise RuntimeError("TorchDeterministic has no entropy")

    def kl(self, other: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("TorchDeterministic has no KL divergence")


class TorchMultiCategorical(TorchDistribution):
    """Several independent choices per row, for MultiDiscrete action spaces.

    Args:
        categoricals: One distribution per choice.
    """

    def __init__(self, categoricals: Sequence[TorchCategorical]) -> None:
        self._cats = list(categoricals)

    @classmethod
    def from_logits(cls, logits: Tensor, input_lens: Sequence[int] = (), **kwargs: Any) -> Any:
        lengths = [int(length) for length in input_lens]
        if sum(lengths) != logits.shape[-1]:
            raise ValueError(f"{logits.shape[-1]} logits per row given, but {lengths} need {sum(lengths)}")
        return cls([TorchCategorical(logits=part) for part in torch.split(logits, lengths, dim=-1)])

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        return int(np.sum(space.nvec))

    def sample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Tensor:
        return torch.stack([c.sample(sample_shape=sample_shape, **kwargs) for c in self._cats], dim=-1)

    def rsample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Tensor:
        return torch.stack([c.rsample(sample_shape=sample_shape, **kwargs) for c in self._cats], dim=-1)

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        parts = [c.logp(v) for c, v in zip(self._cats, value.unbind(-1), strict=True)]
        return torch.stack(parts).sum(0)

    def entropy(self, **kwargs: Any) -> Tensor:
        return torch.stack([c.entropy() for c in self._cats]).sum(0)

    def kl(self, other: TorchMultiCategorical, **kwargs: Any) -> Tensor:
        return torch.stack([c.kl(o) for c, o in zip(self._cats, other._cats, strict=True)]).sum(0)

    def to_deterministic(self) -> TorchDeterministic:
        return TorchDeterministic(loc=torch.stack([c.to_deterministic().loc for c in self._cats], dim=-1))


class TorchMultiDistribution(TorchDistribution):
    """Independent distributions in the structure of a Dict or Tuple action space.

    Args:
        child_distribution_struct: Distributions in nested dicts, tuples and lists.
    """

    def __init__(self, child_distribution_struct: Any) -> None:
        self._original_struct = child_distribution_struct
        self._flat_child_distributions: list[TorchDistribution] = leaves_of(child_distribution_struct)

    @classmethod
    def from_logits(
        cls,
        logits: Tensor,
        child_distribution_cls_struct: Any = (),
        input_lens: Sequence[int] = (),
        **kwargs: Any,
    ) -> Any:
        lengths = [int(length) for length in leaves_of(input_lens)]
        parts = iter(torch.split(logits, lengths, dim=-1))
        return cls(map_leaves(lambda kind: kind.from_logits(next(parts)), child_distribution_cls_struct))

    @staticmethod
    def required_input_dim(space: Any, input_lens: Sequence[int] = (), **kwargs: Any) -> int:
        return int(sum(leaves_of(input_lens)))

    def sample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Any:
        return map_leaves(lambda d: d.sample(sample_shape=sample_shape, **kwargs), self._original_struct)

    def rsample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Any:
        return map_leaves(lambda d: d.rsample(sample_shape=sample_shape, **kwargs), self._original_struct)

    def logp(self, value: Any, **kwargs: Any) -> Tensor:
        values = self._split(value) if isinstance(value, Tensor) else leaves_of(value)
        total: list[Tensor] = []
        for child, part in zip(self._flat_child_distributions, values, strict=True):
            if isinstance(child, TorchCategorical) and part.dim() > 1 and part.shape[-1] == 1:
                part = part.squeeze(-1)
            total.append(child.logp(part))
        return torch.stack(total).sum(0)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        """Cut flat actions, shape ``(B, all)``, into one tensor per part."""
        widths = []
        for child in self._flat_child_distributions:
            if isinstance(child, TorchCategorical):
                widths.append(1)
            elif isinstance(child, TorchMultiCategorical):
                widths.append(len(child._cats))
            else:
                loc: Any = getattr(child, "loc", None)
                widths.append(1 if loc is None or loc.dim() == 1 else loc.shape[-1])
        return torch.split(value, widths, dim=-1)

    def entropy(self, **kwargs: Any) -> Tensor:
        return torch.stack([child.entropy() for child in self._flat_child_distributions]).sum(0)

    def kl(self, other: TorchMultiDistribution, **kwargs: Any) -> Tensor:
        pairs = zip(self._flat_child_distributions, other._flat_child_distributions, strict=True)
        return torch.stack([mine.kl(theirs) for mine, theirs in pairs]).sum(0)

    def to_deterministic(self) -> TorchMultiDistribution:
        return TorchMultiDistribution(map_leaves(lambda d: d.to_deterministic(), self._original_struct))


def map_leaves(call: Callable[[Any], Any], struct: Any) -> Any:
    """Return the same structure with ``call`` applied to every leaf, in the order of :func:`leaves_of`."""
    if isinstance(struct, dict):
        changed = {key: map_leaves(call, struct[key]) for key in sorted(struct)}
        return {key: changed[key] for key in struct}
    if isinstance(struct, tuple | list):
        return type(struct)(map_leaves(call, part) for part in struct)
    return call(struct)
