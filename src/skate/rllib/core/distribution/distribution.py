"""Distribution: the contract of every action distribution."""

from __future__ import annotations

import abc
from typing import Any, TypeVar

D = TypeVar("D", bound="Distribution")


class Distribution(abc.ABC):
    """A distribution over actions, one for each row of a batch."""

    @abc.abstractmethod
    def sample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Any:
        """Draw actions, without a gradient."""

    @abc.abstractmethod
    def rsample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> Any:
        """Draw actions through which gradients flow back to the inputs."""

    @abc.abstractmethod
    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log-likelihood of the given actions, one number per row."""

    @abc.abstractmethod
    def kl(self, other: Any, **kwargs: Any) -> Any:
        """Return the KL divergence of this distribution from ``other``, one number per row."""

    @abc.abstractmethod
    def entropy(self, **kwargs: Any) -> Any:
        """Return the entropy in nats, one number per row."""

    @staticmethod
    @abc.abstractmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return how many inputs per row an action of the given space needs."""

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Any:
        """Make the distribution from the outputs of a module."""
        raise NotImplementedError(f"{cls.__name__} cannot be made from logits; override from_logits()")

    def to_deterministic(self) -> Any:
        """Return the distribution that always gives the most likely action."""
        return self

    @classmethod
    def get_partial_dist_cls(cls: type[D], **partial_kwargs: Any) -> type[D]:
        """Return a subclass whose ``from_logits`` has the given arguments bound.

        Args:
            **partial_kwargs: Arguments of ``from_logits`` and ``required_input_dim``.

        Returns:
            A class that is made from logits alone.
        """
        parent: Any = cls

        def merged(kwargs: dict[str, Any]) -> dict[str, Any]:
            twice = sorted(set(kwargs) & set(partial_kwargs))
            if twice:
                raise ValueError(f"{parent.__name__} has {', '.join(twice)} bound already; leave them out")
            return {**partial_kwargs, **kwargs}

        class DistributionPartial(parent):  # type: ignore[misc]
            @staticmethod
            def required_input_dim(space: Any, **kwargs: Any) -> int:
                bound = merged(kwargs)
                bound.pop("space", None)
                return int(parent.required_input_dim(space, **bound))

            @classmethod
            def from_logits(cls, logits: Any, **kwargs: Any) -> Any:
                made = parent.from_logits(logits, **merged(kwargs))
                made.__class__ = cls
                return made

        DistributionPartial.__name__ = f"{parent.__name__}Partial"
        return DistributionPartial
