"""``skate dashboard``: serves the state and the metrics of a session over HTTP, until Ctrl-C or the end of the session."""

from __future__ import annotations

from collections.abc import Sequence

SUMMARY = "serve state and metrics of a session over HTTP"


def main(arguments: Sequence[str]) -> int:
    """Serve, and return 0; 1 if there is no session."""
    from skate.dashboard import __main__ as server  # needs starlette and uvicorn

    return server.main(arguments)
