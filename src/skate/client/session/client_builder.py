"""`ray.client(...)`, the deprecated builder of connections: without an address it starts a session here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.client.session import session
from skate.client.session.session import RayContext

LOCAL = (None, "", "local")


@dataclass
class ClientContext:
    """The result of `ray.client(...).connect()` in Ray; here a `RayContext`, which has the same names."""

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

    def connect(self) -> RayContext:
        """Start a session in this process, with the settings collected.

        Raises NotImplementedError if an address was given: Skate has no client that drives a cluster from
        afar.
        """
        if self.address not in LOCAL:
            raise NotImplementedError(
                f"ray.client({self.address!r}) would connect to a cluster from outside, which Skate does not "
                "support: the driver "
                "hosts its node itself; leave the address out to start one here, or run the program on the "
                "cluster"
            )
        return session.init("local", **self._settings)

    def __repr__(self) -> str:
        return f"ClientBuilder({self.address!r})"


def client(address: str | None = None, _deprecation_warn_enabled: bool = True) -> ClientBuilder:
    """A builder of a session; deprecated, `init` does the same. See `ClientBuilder.connect`."""
    return ClientBuilder(address)
