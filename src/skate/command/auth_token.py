"""``skate get-auth-token``: prints the token that dashboards accept for everything."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skate.util.state import auth_token

SUMMARY = "print your token for dashboards, or make one"


def main(arguments: Sequence[str]) -> int:
    """Print the token, without the end of a line, and return 0; 1 if there is none."""
    parser = argparse.ArgumentParser(prog="skate get-auth-token", description=SUMMARY)
    parser.add_argument("--generate", action="store_true", help="make a token if there is none")
    given = parser.parse_args(list(arguments))
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
    # A pipe gets the token alone, and a terminal the end of the line.
    print(token, end="", flush=True)
    print(file=sys.stderr)
    return 0
