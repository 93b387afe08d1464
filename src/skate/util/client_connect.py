"""Connections as a client of a cluster, by the older names of Ray: `init("ray://HOST:PORT")` does the same."""

from __future__ import annotations

from typing import Any

import skate
from skate.client.session import session
from skate.client.session.client_builder import address_of_client, client_context
from skate.job_config import JobConfig


def connect(
    conn_str: str,
    secure: bool = False,
    metadata: list[tuple[str, str]] | None = None,
    connection_retries: int = 3,
    job_config: JobConfig | None = None,
    namespace: str | None = None,
    *,
    ignore_version: bool = False,
    _credentials: object = None,
    ray_init_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Connect to the cluster at HOST:PORT, and return facts about it.

    Connections are always encrypted, and authenticated with the token of the cluster; `secure`, `metadata`,
    `connection_retries`, `ignore_version` and `_credentials` have no effect.

    Raises:
        RuntimeError: a session runs already. ConnectionError: there is no such cluster, or it does not admit this program.
    """
    settings = {**(ray_init_kwargs or {}), "namespace": namespace, "job_config": job_config}
    if not session.is_client() or not settings.get("ignore_reinit_error"):
        skate.init(address_of_client(conn_str), **settings)
    facts = client_context()
    return {
        "num_clients": facts._num_clients,
        "python_version": facts.python_version,
        "ray_version": facts.ray_version,
        "ray_commit": facts.ray_commit,
    }


def disconnect() -> None:
    """End the session of this process. No-op if none runs."""
    session.shutdown()
