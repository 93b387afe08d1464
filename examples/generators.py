"""A remote generator passes on each value as it is created; the reader starts while the writer continues.

python examples/generators.py
"""

from __future__ import annotations

from collections.abc import Iterator

import skate as ray


@ray.remote
def primes(below: int) -> Iterator[int]:
    """Stream values: each ``yield`` is a separate ref that the caller can use immediately."""
    sieve = bytearray([1]) * below
    for n in range(2, below):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, below, n)))
            yield n


@ray.remote(_generator_backpressure_num_objects=2)
def endless() -> Iterator[int]:
    """Run at most two values ahead of the reader, so that the generator may be endless."""
    n = 0
    while True:
        yield n * n
        n += 1


@ray.remote(num_returns=3)
def split(words: list[str]) -> Iterator[list[str]]:
    """Return a fixed number of results: the caller gets three refs before anything has run."""
    for i in range(3):
        yield words[i::3]


@ray.remote
def shout(words: list[str]) -> str:
    return " ".join(words).upper()


def main() -> None:
    with ray.init():
        print("primes:", [ray.get(ref) for ref in primes.remote(60)])

        squares = endless.remote()
        print("squares:", [ray.get(next(squares)) for _ in range(6)])
        ray.cancel(squares)

        thirds = split.remote(["many", "hands", "make", "light", "work", "indeed"])
        print("thirds:", ray.get([shout.remote(third) for third in thirds]))


if __name__ == "__main__":
    main()
