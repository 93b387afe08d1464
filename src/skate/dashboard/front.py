"""The page at `/`, for people who open the link: how programs use this server. It has no data of the session."""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Skate session</title></head>
<body>
<main>
<h1>Skate session</h1>
<p>This server answers programs. The token is the end of the link that was printed, behind <code>#token=</code>.</p>
<pre>
export RAY_AUTH_TOKEN=...

skate list tasks --address {url}
skate summary actors --address {url}
skate logs --address {url}
curl -H "Authorization: Bearer $RAY_AUTH_TOKEN" {url}/api/v0/tasks

RAY_AUTH_MODE=token ray list tasks --address {url}
</pre>
<p>Metrics for Prometheus are at {url}/metrics. On the machine itself, <code>skate status</code> needs no server.</p>
</main>
</body>
</html>
"""


def front(request: Request) -> Response:
    """Return the page."""
    url = escape(f"{request.url.scheme}://{request.headers['host']}")
    return HTMLResponse(PAGE.format(url=url))
