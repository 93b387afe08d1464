"""Seeds of random numbers: fixed, new in each run, or unspecified."""

from __future__ import annotations

import secrets

from skate.data.context import RandomSeedConfig


class Seeds:
    """The seeds of the runs of one operation."""

    def __init__(self, seed: int | RandomSeedConfig | None) -> None:
        if isinstance(seed, RandomSeedConfig):
            self.seed, self.reseeds = seed.seed, seed.reseed_after_execution
        else:
            self.seed, self.reseeds = seed, False
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(
                f"Invalid seed type: {type(seed)}; seed must be an integer, a RandomSeedConfig or "
                f"None, got {seed!r}"
            )
        self.runs = 0

    def draw(self) -> tuple[int, ...]:
        """Return the seed for the random numbers of the next run."""
        run, self.runs = self.runs, self.runs + 1
        if self.seed is None:
            return (secrets.randbits(64),)
        sign = int(self.seed < 0)
        return (abs(self.seed), sign, run) if self.reseeds else (abs(self.seed), sign)

    def of_tasks(self) -> tuple[int, ...] | None:
        """Return the seed for the tasks of the next run, which each task combines with its number; None for
        arbitrary numbers."""
        run, self.runs = self.runs, self.runs + 1
        if self.seed is None:
            return None
        return (run, self.seed) if self.reseeds else (self.seed,)

    def single(self) -> int | None:
        """Return a seed for the next run that RandomState and default_rng accept; None for any."""
        run, self.runs = self.runs, self.runs + 1
        if self.seed is None or not self.reseeds:
            return self.seed
        return hash((self.seed, run)) % (1 << 32)
