"""Requests to a dashboard, which carry a token: they follow no redirection, and use no proxy on this machine."""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any
from urllib.parse import urlsplit

#: Names of this machine, whose connections nobody else can read.
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, because the token would go along."""

    def redirect_request(self, *_: Any) -> None:
        """Return None: the answer is an error."""


def opener_for(address: str, tls: ssl.SSLContext | None = None) -> urllib.request.OpenerDirector:
    """Return what opens requests to a server.

    Args:
        address: its URL.
        tls: which certificates are accepted; default: those that the system trusts.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if tls is not None:
        handlers.append(urllib.request.HTTPSHandler(context=tls))
    if urlsplit(address).hostname in LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)
