"""Clients of clusters: the context that `init("ray://HOST:PORT")` returns, and `ray.client(...)`, the deprecated builder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.client.session import session
from skate.client.session.session import RayContext

LOCAL = (None, "", "local")
SCHEME = "ray://"
#: A process is one client of one cluster.
CLIENTS_OF_A_PROCESS = 1


@dataclass
class ClientContext:
    """The result of `init("ray://HOST:PORT")`, and of `ray.client("HOST:PORT").connect()`: facts about the cluster."""

    dashboard_url: str | None
    python_version: str
    ray_version: str
    ray_commit: str
    _num_clients: int
    _context_to_restore: Any

    def disconnect(self) -> None:
        """End the session."""
        session.shutdown()

    def __enter__(self) -> ClientContext:
        return self

    def __exit__(self, *exc: object) -> None:
        self.disconnect()


class ClientBuilder:
    """Collects settings for `connect`; each method returns the builder."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._settings: dict[str, Any] = {}

    def env(self, env: dict[str, Any]) -> ClientBuilder:
        """The runtime environment of the session."""
        self._settings["runtime_env"] = env
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """The namespace of the session's named actors."""
        self._settings["namespace"] = namespace
        return self

    def _init_args(self, **settings: Any) -> ClientBuilder:
        self._settings.update(settings)
        return self

    def connect(self) -> RayContext | ClientContext:
        """Start a session with the settings collected: in this process, or as a client of the cluster at the address.

        Raises ConnectionError if there is no such cluster, or it does not admit this program.
        """
        if self.address in LOCAL:
            return session.init("local", **self._settings)
        session.init(address_of_client(self.address or ""), **self._settings)
        return client_context()

    def __repr__(self) -> str:
        return f"ClientBuilder({self.address!r})"


def address_of_client(named: str) -> str:
    """Return the address with the scheme of clients."""
    return named if named.startswith(SCHEME) else f"{SCHEME}{named}"


def client_context() -> ClientContext:
    """Return the context of this process as a client of the cluster that it has joined."""
    process = session.current()
    facts = RayContext(process)
    return ClientContext(
        facts.dashboard_url,
        facts.python_version,
        facts.ray_version,
        facts.ray_commit,
        CLIENTS_OF_A_PROCESS,
        None,
    )


def client(address: str | None = None, _deprecation_warn_enabled: bool = True) -> ClientBuilder:
    """A builder of a session; deprecated, `init` does the same. See `ClientBuilder.connect`."""
    return ClientBuilder(address)
