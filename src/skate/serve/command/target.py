"""The target of a command: a node that it joins, or a node's REST API."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

import skate
from skate.command.session import given_address
from skate.serve import api, config_loader, rest
from skate.serve.schema.deploy import ServeDeploySchema

_ANSWER_SECONDS = 120.0


class Joined:
    """A node that this process joins as a driver."""

    def __init__(self, address: str | None) -> None:
        if not skate.is_initialized():
            wanted = given_address(address) or "auto"
            skate.init(address=wanted)

    def details(self) -> dict[str, Any]:
        """Return the complete state, in the format of the REST API."""
        return rest.details()

    def deploy(self, schema: ServeDeploySchema) -> None:
        """Deploy a config."""
        config_loader.deploy(schema)

    def shutdown(self) -> None:
        """Shut everything down."""
        api.shutdown()


class RestTarget:
    """The REST API at an address."""

    def __init__(self, address: str) -> None:
        self._url = address.rstrip("/") + "/api/serve/applications/"
        self._token = os.environ.get("SKATE_SERVE_TOKEN") or os.environ.get("RAY_AUTH_TOKEN") or ""

    def _ask(self, method: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            try:
                message = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):  # another server answered
                message = text[:400]
            hint = "; set SKATE_SERVE_TOKEN" if error.code == 401 else ""
            raise RuntimeError(f"{self._url} returned {error.code}: {message}{hint}") from None
        except urllib.error.URLError as error:
            raise ConnectionError(
                f"nothing answers at {self._url} ({error.reason}); `serve start --rest-port ...` starts the REST API on a node"
            ) from None

    def details(self) -> dict[str, Any]:
        """Return the complete state."""
        found: dict[str, Any] = self._ask("GET")
        return found

    def deploy(self, schema: ServeDeploySchema) -> None:
        """Deploy a config."""
        self._ask("PUT", schema.model_dump(exclude_unset=True))

    def shutdown(self) -> None:
        """Shut everything down."""
        self._ask("DELETE")


def of(address: str | None) -> Joined | RestTarget:
    """Return the target for an address. Raises ConnectionError if there is no node."""
    wanted = address or os.environ.get("RAY_DASHBOARD_ADDRESS") or ""
    return RestTarget(wanted) if wanted.startswith(("http://", "https://")) else Joined(address)
