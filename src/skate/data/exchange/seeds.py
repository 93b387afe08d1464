"""Where random numbers begin: the same in each run, other ones in each run, or nobody's choice."""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass
class RandomSeedConfig:
    """How an operation that draws random numbers is seeded.

    Args:
        seed: a whole number, or None for other numbers in each run.
        reseed_after_execution: whether each run of the same dataset draws other numbers (of a series that `seed` determines).
        use_timestamp_as_default: accepted; without a seed, nobody can tell how one was found.
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"seed is a whole number or None, not {self.seed!r}")


class Seeds:
    """The seeds of the runs of one operation."""

    def __init__(self, asked: int | RandomSeedConfig | None) -> None:
        if isinstance(asked, RandomSeedConfig):
            self.seed, self.reseeds = asked.seed, asked.reseed_after_execution
        else:
            self.seed, self.reseeds = asked, False
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(f"seed is a whole number, a RandomSeedConfig or None, not {asked!r}")
        self.runs = 0

    def draw(self) -> tuple[int, ...]:
        """What the random numbers of the next run begin with."""
        run, self.runs = self.runs, self.runs + 1
        if self.seed is None:
            return (secrets.randbits(64),)
        sign = int(self.seed < 0)
        return (abs(self.seed), sign, run) if self.reseeds else (abs(self.seed), sign)
