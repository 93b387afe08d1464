"""The link to the dashboard of a session, also as HTML for notebooks."""

from __future__ import annotations

import html

from skate.client.session import dashboard_process, session


class Link:
    """Where the dashboard of a session is found.

    Args:
        url: its address, such as "http://127.0.0.1:8265".
        token: a token for everything. It is in the part of the link that browsers do not send.
        read_token: a token that only reads.
    """

    def __init__(self, url: str, token: str, read_token: str) -> None:
        self.url = url
        self.token = token
        self.read_token = read_token

    @property
    def link(self) -> str:
        """The address with the token."""
        return f"{self.url}/#token={self.token}"

    def __str__(self) -> str:
        return self.link

    def __repr__(self) -> str:
        return f"<Dashboard at {self.url}>"

    def _repr_html_(self) -> str:
        link, url = html.escape(self.link), html.escape(self.url)
        return f'<a href="{link}" target="_blank" rel="noopener noreferrer">The dashboard of this session: {url}</a>'


def link(host: str, port: int | None) -> Link:
    """Start the dashboard of the session if it has none, and return the link. Raises RuntimeError if it cannot start."""
    session.current()
    facts = dashboard_process.start(dashboard_process.DashboardPlace(host, port))
    if facts is None:
        raise RuntimeError("this session has no node, so there is no dashboard")
    return Link(facts["url"], facts["token"], facts["read_token"])


__all__ = ["Link", "link"]
