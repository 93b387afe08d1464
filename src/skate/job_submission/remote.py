"""Jobs of a server over HTTP: of Skate's dashboard, or of a Ray cluster."""

from __future__ import annotations

import http.cookies
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from skate.exceptions import AuthenticationError
from skate.installed import require
from skate.job_submission.models import JobDetails
from skate.util.http.token_client import opener_for
from skate.util.state import auth_token

ANSWER_SECONDS = 120.0
TOKEN_HEADERS = ("authorization", "x-ray-authorization")
_NO_TOKEN = (
    "the server at {address} wants a token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or pass "
    "headers={{'Authorization': 'Bearer <token>'}} (--headers on the command line). It answered: {text}"
)


class RemoteJobs:
    """The jobs of a server.

    Args:
        address: its URL.
        cookies, headers: sent with each request.
        verify: False to accept any certificate of the server, or the file or folder of trusted ones.

    Raises:
        ConnectionError: there is no server. AuthenticationError: it wants another token. FileNotFoundError: no certificates.
    """

    def __init__(
        self,
        address: str,
        cookies: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool | None = True,
    ) -> None:
        self.address = address.rstrip("/")
        self._headers = {name: str(value) for name, value in (headers or {}).items()}
        if cookies:
            morsels = http.cookies.SimpleCookie({name: str(value) for name, value in cookies.items()})
            self._headers["Cookie"] = morsels.output(header="", sep=";").strip()
        if not any(name.lower() in TOKEN_HEADERS for name in self._headers):
            token = auth_token.find(urlsplit(self.address).hostname or "")
            if token:
                self._headers["Authorization"] = f"Bearer {token}"
        self._tls = _tls(verify) if self.address.startswith("https") else None
        facts = self._json("GET", "/api/version")
        self.version = str(facts["version"])
        self.ray_version = str(facts["ray_version"])

    def submit(self, request: dict[str, Any]) -> str:
        """Start a job and return its id."""
        sent = {name: value for name, value in request.items() if value is not None}
        return str(self._json("POST", "/api/jobs/", sent)["submission_id"])

    def stop(self, job: str) -> bool:
        """Ask a job to end; return False if it has ended already."""
        return bool(self._json("POST", f"/api/jobs/{quote(job, safe='')}/stop")["stopped"])

    def delete(self, job: str) -> bool:
        """Forget a job that has ended."""
        return bool(self._json("DELETE", f"/api/jobs/{quote(job, safe='')}")["deleted"])

    def details(self, job: str) -> JobDetails:
        """Return the facts about a job."""
        return JobDetails.of(self._json("GET", f"/api/jobs/{quote(job, safe='')}"))

    def all_details(self) -> list[JobDetails]:
        """Return the facts about all jobs."""
        return [JobDetails.of(each) for each in self._json("GET", "/api/jobs/")]

    def log(self, job: str) -> str:
        """Return the output of a job."""
        return str(self._json("GET", f"/api/jobs/{quote(job, safe='')}/logs")["logs"])

    async def follow(self, job: str) -> AsyncIterator[str]:
        """Yield the output of a job as it comes. Raises RuntimeError if the connection ends before the job."""
        websockets = require("websockets", "following the output of a job")
        connect = require("websockets.asyncio.client", "following the output of a job").connect
        url = f"ws{self.address.removeprefix('http')}/api/jobs/{quote(job, safe='')}/logs/tail"
        try:
            # Ray's server passes the offer of a compression on to another process, and cannot read what that compresses.
            async with connect(
                url,
                additional_headers=self._headers,
                ssl=self._tls,
                proxy=None,
                max_size=None,
                compression=None,
            ) as stream:
                async for text in stream:
                    yield text if isinstance(text, str) else text.decode("utf-8", "replace")
        except websockets.exceptions.InvalidStatus as error:
            text = bytes(error.response.body or b"").decode("utf-8", "replace")
            self._raise(error.response.status_code, text)
        except websockets.exceptions.ConnectionClosedError as error:
            raise RuntimeError(f"WebSocket connection closed unexpectedly: {error}") from error
        except OSError as error:
            raise self._unreachable(error) from error

    def exists(self, name: str) -> bool:
        """Return True if a package is there."""
        status, text = self._request("GET", f"/api/packages/gcs/{quote(name)}")
        if status not in (200, 404):
            self._raise(status, text)
        return status == 200

    def put(self, name: str, file: Path) -> None:
        """Store a package."""
        with open(file, "rb") as opened:
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(os.path.getsize(file)),
            }
            status, text = self._request("PUT", f"/api/packages/gcs/{quote(name)}", opened, headers)
        if status != 200:
            self._raise(status, text)

    def _json(self, method: str, path: str, sent: Any = None) -> Any:
        headers = {} if sent is None else {"Content-Type": "application/json"}
        data = None if sent is None else json.dumps(sent).encode()
        status, text = self._request(method, path, data, headers)
        if status != 200:
            self._raise(status, text)
        return json.loads(text)

    def _request(
        self, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        request = urllib.request.Request(
            self.address + path, data, {**self._headers, **(headers or {})}, method=method
        )
        try:
            with opener_for(self.address, self._tls).open(request, timeout=ANSWER_SECONDS) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode("utf-8", "replace")
        except OSError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> ConnectionError:
        return ConnectionError(f"Failed to connect to Ray at address: {self.address}. ({error})")

    def _raise(self, status: int, text: str) -> None:
        if status in (401, 403):
            raise AuthenticationError(_NO_TOKEN.format(address=self.address, text=text))
        raise RuntimeError(f"Request failed with status code {status}: {text}.")


def _tls(verify: str | bool | None) -> ssl.SSLContext:
    if isinstance(verify, str):
        if os.path.isdir(verify):
            return ssl.create_default_context(capath=verify)
        if not os.path.isfile(verify):
            raise FileNotFoundError(f"Path to CA certificates: '{verify}', does not exist.")
        return ssl.create_default_context(cafile=verify)
    context = ssl.create_default_context()
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
