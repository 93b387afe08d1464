"""The session that a verb asks: the one of this process, or for as long as the verb takes one at an address."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import skate
from skate.util.state.exception import RayStateApiException


@contextlib.contextmanager
def joined(address: str | None) -> Iterator[None]:
    """Provide a session within the block. Raises ConnectionError or ValueError if none runs at the address."""
    if skate.is_initialized():
        yield
        return
    skate.init(address or "auto", log_to_driver=False)
    try:
        yield
    finally:
        skate.shutdown()


def print_of(address: str | None, make: Callable[[], str]) -> int:
    """Print what `make` returns inside of a session; the exit status."""
    try:
        with joined(address):
            print(make())
    except (ConnectionError, ValueError, RuntimeError, RayStateApiException) as error:
        print(f"skate: {error}", file=sys.stderr)
        return 1
    return 0
