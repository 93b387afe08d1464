"""Functions that define a search space: `uniform(0, 1)`, `choice([...])`, `grid_search([...])`, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skate.tune.space.domain import Categorical, Float, Function, Integer
from skate.tune.space.sampler import LOG_BASE


def uniform(lower: float, upper: float) -> Float:
    """Draw a real number from `lower` to `upper`, all equally likely."""
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draw a real number from `lower` to `upper`, rounded to a multiple of `q`."""
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: Any = LOG_BASE) -> Float:
    """Draw a real number from `lower` to `upper`, with every order of magnitude equally likely.

    Raises:
        ValueError: a bound is not more than 0.
    """
    return Float(lower, upper).loguniform(base)


def qloguniform(lower: float, upper: float, q: float, base: Any = LOG_BASE) -> Float:
    """Draw a number as `loguniform` does, rounded to a multiple of `q`."""
    return Float(lower, upper).loguniform(base).quantized(q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw a normally distributed number with this mean and standard deviation."""
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Draw a normally distributed number, rounded to a multiple of `q`."""
    return Float(None, None).normal(mean, sd).quantized(q)


def randint(lower: int, upper: int) -> Integer:
    """Draw an integer from `lower` up to `upper`, excluding `upper`."""
    return Integer(lower, upper).uniform()


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw a multiple of `q` from `lower` up to `upper`, including `upper`."""
    return Integer(lower, upper).uniform().quantized(q)


def lograndint(lower: int, upper: int, base: Any = LOG_BASE) -> Integer:
    """Draw an integer from `lower` up to `upper`, excluding `upper`, with every order of magnitude equally likely.

    Raises:
        ValueError: a bound is not more than 0.
    """
    return Integer(lower, upper).loguniform(base)


def qlograndint(lower: int, upper: int, q: int, base: Any = LOG_BASE) -> Integer:
    """Draw an integer as `lograndint` does, rounded to a multiple of `q`, including `upper`."""
    return Integer(lower, upper).loguniform(base).quantized(q)


def choice(categories: Sequence[Any]) -> Categorical:
    """Choose among several values, which may be or contain domains themselves."""
    return Categorical(categories).uniform()


def sample_from(func: Callable[..., Any]) -> Function:
    """Compute a value with a function of the configuration drawn so far (`config["lr"]`, or `spec.config.lr`), or
    of nothing.
    """
    return Function(func)


def grid_search(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Try all values, one trial each; several grids are combined as a product.

    Raises:
        TypeError: `values` is not iterable.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"grid_search takes a list of values, got {type(values).__name__}: {values!r:.80}")
    return {"grid_search": list(values)}
