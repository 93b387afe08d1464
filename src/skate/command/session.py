"""The session for a subcommand: this process's, or a temporary connection to an address."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import skate
from skate.client.session.detached_node import asked as asked
from skate.util.state.exception import RayStateApiException

ADDRESS_HELP = "the address of the node; by default SKATE_ADDRESS, RAY_ADDRESS, or this user's own node"


@contextlib.contextmanager
def joined(address: str | None) -> Iterator[None]:
    """Provide a session within the block. Raises ConnectionError or ValueError if none runs at the address.

    Without an address, SKATE_ADDRESS and RAY_ADDRESS are tried first, then this user's own node.
    """
    if skate.is_initialized():
        yield
        return
    skate.init(asked(address) or "auto", log_to_driver=False, _looks=True)
    try:
        yield
    finally:
        skate.shutdown()


def print_of(address: str | None, make: Callable[[], str]) -> int:
    """Print the result of `make` in a session; return the exit status."""
    try:
        with joined(address):
            text = make()
    except (ConnectionError, ValueError, RuntimeError, RayStateApiException) as error:
        print(f"skate: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0
