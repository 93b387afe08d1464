"""The session for a subcommand: this process's, or a temporary connection to an address."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

import skate
from skate.client.session import detached_node
from skate.client.session.detached_node import given_address as given_address
from skate.util.state.exception import RayStateApiException, ServerUnavailable
from skate.util.state.rest import is_url

ADDRESS_HELP = "the address of the node; by default SKATE_ADDRESS, RAY_ADDRESS, or this user's own node"
URL_HELP = f"{ADDRESS_HELP}; or the URL of a dashboard, such as http://127.0.0.1:8265"
PID_HELP = "a process of yours whose session is asked instead"
#: The exit status of Ray's command line for a question that cannot be answered.
REFUSED = 2


def add_options(parser: argparse.ArgumentParser, url: bool = False, pid: bool = True) -> None:
    """Add the options that select a session; with `url`, the address may be that of a dashboard.

    Without `pid`, the option --pid has another meaning, and --session-pid this one.
    """
    parser.add_argument("--address", help=URL_HELP if url else ADDRESS_HELP)
    names = ["--session-pid", "--pid"] if pid else ["--session-pid"]
    parser.add_argument(*names, dest="pid", type=int, metavar="PID", help=PID_HELP)


def add_ray_logging(parser: argparse.ArgumentParser) -> None:
    """Add the options by which Ray's command line formats its own messages; they have no effect here."""
    for name in ("--log-style", "--log-color"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help=argparse.SUPPRESS)


def address_of(given: argparse.Namespace) -> str | None:
    """Return the address that the options select, or None. Raises ConnectionError for a process without a session."""
    if given.pid is not None:
        return detached_node.of_process(given.pid)
    return given_address(given.address)


@contextlib.contextmanager
def joined(address: str | None) -> Iterator[None]:
    """Provide a session within the block. Raises ConnectionError or ValueError if none runs at the address.

    Without an address, SKATE_ADDRESS and RAY_ADDRESS are tried first, then this user's own node. None is needed for a URL.
    """
    if skate.is_initialized() or is_url(address):
        yield
        return
    skate.init(given_address(address) or "auto", log_to_driver=False, _looks=True)
    try:
        yield
    finally:
        skate.shutdown()


def run_in(given: argparse.Namespace, act: Callable[[str | None], None]) -> int:
    """Call `act` with the address that the options select, in a session; return the exit status."""
    try:
        address = address_of(given)
        with joined(address):
            act(address)
    except RayStateApiException as error:
        print(f"skate: {error}", file=sys.stderr)
        return 1 if isinstance(error, ServerUnavailable) else REFUSED
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"skate: {error}", file=sys.stderr)
        return 1
    return 0


def print_of(given: argparse.Namespace, make: Callable[[str | None], str]) -> int:
    """Print the result of `make` in a session; return the exit status."""
    return run_in(given, lambda address: print(make(address)))
