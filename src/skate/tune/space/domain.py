"""Domains: a range of numbers, a set of choices, or the result of a function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from skate.tune.space import sampler as samplers
from skate.tune.space.sampler import LOG_BASE, Sampler


class Domain:
    """A set of values with a way to draw from it."""

    sampler: Sampler | None = None
    default_sampler_cls: Callable[[], Sampler] | None = None
    whole = False
    lower: Any = None
    upper: Any = None

    def cast(self, value: Any) -> Any:
        """Convert a drawn value to the type of the domain."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Draw with another sampler.

        Raises:
            ValueError: the domain already has a sampler, and `allow_override` is False.
        """
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"{self.domain_str} already has the sampler {self.sampler}; set allow_override=True"
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """The sampler, the default one if none was set."""
        if self.sampler is not None:
            return self.sampler
        assert self.default_sampler_cls is not None
        return self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of `size` values if that is more than 1."""
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """True if all values are tried instead of drawn."""
        return isinstance(self.sampler, samplers.Grid)

    def is_function(self) -> bool:
        """True if a function returns the value."""
        return False

    def is_valid(self, value: Any) -> bool:
        """True if a value belongs to the domain."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        """The domain in a few characters."""
        return "(unknown)"

    def _with(self, sampler: Sampler) -> Any:
        new = copy.copy(self)
        new.set_sampler(sampler)
        return new


class Float(Domain):
    """Real numbers between two bounds; None for no bound."""

    default_sampler_cls = samplers.Uniform

    def __init__(self, lower: float | None, upper: float | None) -> None:
        self.lower = float("-inf") if lower is None else lower
        self.upper = float("inf") if upper is None else upper

    def cast(self, value: Any) -> float:
        """Convert to a float."""
        return float(value)

    def _check_bounds(self, what: str) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound in (float("-inf"), float("inf")):
                raise ValueError(f"{what} needs a {name} bound that is a number, got {bound}")

    def uniform(self) -> Float:
        """Draw uniformly."""
        self._check_bounds("a uniform distribution")
        found: Float = self._with(samplers.Uniform())
        return found

    def loguniform(self, base: Any = LOG_BASE) -> Float:
        """Draw with every order of magnitude equally likely.

        Raises:
            ValueError: a bound is not more than 0, so it has no logarithm.
        """
        if not self.lower > 0:
            raise ValueError(f"LogUniform requires a lower bound greater than 0. Got: {self.lower}")
        if not 0 < self.upper < float("inf"):
            raise ValueError(
                f"LogUniform requires an upper bound that is a number greater than 0. Got: {self.upper}"
            )
        found: Float = self._with(samplers.LogUniform(base))
        return found

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        """Draw from a normal distribution."""
        found: Float = self._with(samplers.Normal(mean, sd))
        return found

    def quantized(self, q: float) -> Float:
        """Round to multiples of `q`.

        Raises:
            ValueError: a bound is not a multiple of `q`.
        """
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound not in (float("-inf"), float("inf")) and not _divides(q, bound):
                raise ValueError(
                    f"Your {name} variable bound {bound} is not divisible by quantization factor {q}; "
                    f"choose one that is a multiple of it"
                )
        new = copy.copy(self)
        new.set_sampler(samplers.Quantized(new.get_sampler(), q), allow_override=True)
        return new

    def is_valid(self, value: float) -> bool:
        """True if a number is within the bounds."""
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        """The bounds."""
        return f"({self.lower}, {self.upper})"


class Integer(Domain):
    """Integers from `lower` (inclusive) to `upper` (exclusive)."""

    default_sampler_cls = samplers.Uniform
    whole = True

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper

    def cast(self, value: Any) -> int:
        """Convert to an int."""
        return int(value)

    def quantized(self, q: int) -> Integer:
        """Round to multiples of `q`; the upper bound then belongs to the domain."""
        new = copy.copy(self)
        new.set_sampler(samplers.Quantized(new.get_sampler(), q), allow_override=True)
        return new

    def uniform(self) -> Integer:
        """Draw uniformly."""
        found: Integer = self._with(samplers.Uniform())
        return found

    def loguniform(self, base: Any = LOG_BASE) -> Integer:
        """Draw with every order of magnitude equally likely.

        Raises:
            ValueError: a bound is not more than 0, so it has no logarithm.
        """
        if not self.lower > 0:
            raise ValueError(f"LogUniform requires a lower bound greater than 0. Got: {self.lower}")
        if not 0 < self.upper < float("inf"):
            raise ValueError(
                f"LogUniform requires an upper bound that is a number greater than 0. Got: {self.upper}"
            )
        found: Integer = self._with(samplers.LogUniform(base))
        return found

    def is_valid(self, value: int) -> bool:
        """True if a number is within the bounds."""
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        """The bounds."""
        return f"({self.lower}, {self.upper})"


class Categorical(Domain):
    """A choice among several values."""

    default_sampler_cls = samplers.Uniform

    def __init__(self, categories: Sequence[Any]) -> None:
        self.categories = list(categories)

    def uniform(self) -> Categorical:
        """Draw uniformly."""
        found: Categorical = self._with(samplers.Uniform())
        return found

    def grid(self) -> Categorical:
        """Try all categories in turn."""
        found: Categorical = self._with(samplers.Grid())
        return found

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, item: int) -> Any:
        return self.categories[item]

    def is_valid(self, value: Any) -> bool:
        """True if a value is one of the categories."""
        return value in self.categories

    @property
    def domain_str(self) -> str:
        """The categories."""
        return f"{self.categories}"


class _Call(samplers.BaseSampler):
    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        given = config if isinstance(config, list) else [config] * size
        found = [domain.func(each) if domain.takes_config else domain.func() for each in given]
        return found[0] if size == 1 else found

    def __str__(self) -> str:
        return "CallSampler"


class Function(Domain):
    """The result of a function of the rest of the configuration."""

    default_sampler_cls = _Call

    def __init__(self, func: Callable[..., Any]) -> None:
        self.takes_config = bool(_parameters(func))
        self.func = func

    def is_function(self) -> bool:
        """True: a function returns the value."""
        return True

    def is_valid(self, value: Any) -> bool:
        """True: a function may return anything."""
        return True

    @property
    def domain_str(self) -> str:
        """The function's name."""
        return f"{getattr(self.func, '__name__', self.func)}()"


def _parameters(func: Callable[..., Any]) -> list[Any]:
    if not callable(func):
        raise ValueError(
            f"sample_from takes a function of the configuration, got {type(func).__name__}: {func!r:.80}"
        )
    try:
        found = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return []
    needed = [
        each
        for each in found
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ValueError(
            f"sample_from takes a function of zero or one arguments; {func!r:.80} needs {len(needed)}"
        )
    return found


def _divides(q: float, bound: float) -> bool:
    times = bound / q
    return abs(times - round(times)) < 1e-6


# Some tools inspect the annotations of a domain and compare them with the types.
for _domain, _type in ((Float, float), (Integer, int), (Categorical, Any), (Function, Any), (Domain, Any)):
    _domain.is_valid.__annotations__.update({"value": _type, "return": bool})
