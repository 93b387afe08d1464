"""``skate get-auth-token``: prints the token that dashboards accept for everything."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from skate.client.session import detached_node
from skate.util.state import auth_token

SUMMARY = "print your token for dashboards, or make one"


def main(arguments: Sequence[str]) -> int:
    """Print a token, without the end of a line, and return 0; 1 if there is none."""
    parser = argparse.ArgumentParser(prog="skate get-auth-token", description=SUMMARY)
    parser.add_argument("--generate", action="store_true", help="make a token if there is none")
    parser.add_argument(
        "--scope",
        choices=("read", "submit"),
        default="submit",
        help="read: the token of your node's dashboard that reads only; default: %(default)s",
    )
    parser.add_argument("--temp-dir", help="folder of the node's socket, as given to `skate start`")
    given = parser.parse_args(list(arguments))
    if given.scope == "read":
        return _print_reading(detached_node.folder_of(given.temp_dir))
    try:
        token = auth_token.find()
        if not token and given.generate:
            token = auth_token.generate()
            print(f"A new token is in {auth_token.default_path()}.", file=sys.stderr)
    except OSError as error:
        print(f"skate get-auth-token: {error}", file=sys.stderr)
        return 1
    if not token:
        print("There is no token. `skate get-auth-token --generate` makes one.", file=sys.stderr)
        return 1
    _print(token)
    return 0


def _print_reading(folder: str) -> int:
    """Print the token that reads, of the dashboard of the node with a folder; return the exit status."""
    try:
        token = (Path(folder) / detached_node.METRICS_TOKEN_NAME).read_text().strip()
    except OSError:
        print(
            "skate get-auth-token: your node has no dashboard; start one with `skate start --head --include-dashboard true`",
            file=sys.stderr,
        )
        return 1
    _print(token)
    return 0


def _print(token: str) -> None:
    # A pipe gets the token alone, and a terminal the end of the line.
    print(token, end="", flush=True)
    print(file=sys.stderr)
