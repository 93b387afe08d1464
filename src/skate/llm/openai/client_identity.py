"""The client of a request: its verified API key, or else the address of the peer."""

from __future__ import annotations

import hashlib
import ipaddress

from starlette.types import Scope

#: Set by the check of API keys. An unverified key does not identify a client, which could send many.
CHECKED_KEY = "skate.api_key"


def client_of(scope: Scope) -> str:
    """Return an id for the client that sent a request.

    The server determines the peer: uvicorn accepts X-Forwarded-For only from proxies in FORWARDED_ALLOW_IPS, by
    default those on this machine. Only the first 64 bits of an IPv6 address count, because a client usually owns
    all addresses that begin with them.
    """
    key = scope.get(CHECKED_KEY)
    if key is not None:
        return "key:" + hashlib.sha256(key).hexdigest()[:24]
    peer = scope.get("client")
    if not peer:
        return "unknown"
    try:
        address = ipaddress.ip_address(peer[0])
    except ValueError:
        return "peer:" + str(peer[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return "peer:" + str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return "peer:" + str(address)
