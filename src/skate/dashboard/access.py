"""Who may do what: tokens with scopes, and the hosts under which the server may be addressed."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable

from skate.util.state import auth_token

#: Scopes; each contains those before it.
READ, CONTROL, SUBMIT = "read", "control", "submit"
SCOPES = (READ, CONTROL, SUBMIT)
TOKEN_BYTES = 32


class Access:
    """The tokens of a server, by scope, and the values of the header Host that it accepts.

    Args:
        hosts: accepted values, each a host with its port, in lower case.
        tokens: the token of each scope; by default random ones.
        proxies: those of the hosts that are proxies: their pages may ask under any value of Host, by HTTP or HTTPS, because a
            proxy may end TLS, or send the server's own name.
    """

    def __init__(
        self, hosts: Iterable[str], tokens: dict[str, str] | None = None, proxies: Iterable[str] = ()
    ) -> None:
        self.hosts = frozenset(hosts)
        self.origins = frozenset(
            f"{scheme}://{name}".lower() for name in proxies for scheme in ("http", "https")
        )
        self.tokens = tokens or {scope: secrets.token_urlsafe(TOKEN_BYTES) for scope in SCOPES}

    def scope_of(self, token: str) -> str | None:
        """Return the greatest scope of a token, or None if it is unknown. Takes the same time for each token."""
        found = None
        for scope in SCOPES:
            if hmac.compare_digest(token.encode(), self.tokens[scope].encode()):
                found = scope
        return found


def allows(scope: str, needed: str) -> bool:
    """Return True if a scope contains another."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


def hosts_of(host: str, port: int, more: Iterable[str] = ()) -> set[str]:
    """Return the values of Host for a server that listens at an address."""
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    return {f"{name}:{port}".lower() for name in names} | {name.lower() for name in more}


def tokens_from_environment() -> dict[str, str]:
    """Return new tokens. The user's own one, which `auth_token` finds, replaces the one for everything.

    Raises:
        OSError: the file of the user's token cannot be read.
    """
    tokens = {scope: secrets.token_urlsafe(TOKEN_BYTES) for scope in SCOPES}
    given = auth_token.find()
    if given:
        tokens[SUBMIT] = given
    return tokens
