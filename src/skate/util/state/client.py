"""`StateApiClient`: the queries of `api` as methods of one object."""

from __future__ import annotations

from typing import Any

from skate.client.session import session
from skate.util.state.api import find, rows_of
from skate.util.state.common import (
    DEFAULT_RPC_TIMEOUT,
    GetApiOptions,
    ListApiOptions,
    StateResource,
    SummaryApiOptions,
    SummaryResource,
)
from skate.util.state.rest import adding, is_url
from skate.util.state.summary import summarize
from skate.version import RAY_VERSION


class StateApiClient:
    """The queries of `api` as methods, for programs that hold a client.

    Args:
        address: the URL of a dashboard; by default, the client queries the session of this process.
        cookies, headers: sent with each request to a dashboard.
    """

    def __init__(
        self,
        address: str | None = None,
        cookies: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
    ) -> None:
        self.address = address
        self._headers = {name: str(value) for name, value in (headers or {}).items()}
        if cookies:
            self._headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> list[Any]:
        """List the rows of a kind."""
        with adding(self._headers):
            return find(
                resource.value,
                options.filters,
                options.limit,
                options.timeout,
                options.detail,
                raise_on_missing_output,
                self.address,
            )

    def get(
        self, resource: StateResource, id: str, options: GetApiOptions | None, _explain: bool = False
    ) -> Any:
        """Return the row with an id, or None; for objects and tasks, all rows."""
        timeout = DEFAULT_RPC_TIMEOUT if options is None else options.timeout
        with adding(self._headers):
            rows = rows_of(resource.value, id, timeout, self.address)
        if resource is StateResource.OBJECTS or len(rows) > 1:
            return rows
        return rows[0] if rows else None

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> dict[str, Any]:
        """Return a summary, under the name of the whole cluster."""
        with adding(self._headers):
            return summarize(resource.value, options.timeout, raise_on_missing_output, self.address)

    def get_address(self) -> str:
        """Return the URL of the dashboard, or the address of the session; empty without one."""
        return self.address if is_url(self.address) and self.address else session.address_of_node()

    def get_version(self) -> str:
        """Return the version of Ray's API."""
        return RAY_VERSION
