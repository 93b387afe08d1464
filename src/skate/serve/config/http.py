"""Where and how Serve listens."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.checked import Checked, not_negative, positive


class ProxyLocation(str, enum.Enum):
    """On which machines requests are taken in."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"

    @classmethod
    def _missing_(cls, value: object) -> ProxyLocation | None:
        for each in cls:
            if each.value == value or each.name == value:
                return each
        return None


def _location(said: Any) -> ProxyLocation:
    """Convert a location. Raises ValueError for an unknown one."""
    return ProxyLocation.Disabled if said == "NoServer" else ProxyLocation(said)


#: The environment's say on the length of bodies, in bytes, where the options have none.
BODY_MAX_VARIABLE = "SKATE_SERVE_MAX_REQUEST_BODY_BYTES"


def _body_max() -> int | None:
    said = os.environ.get(BODY_MAX_VARIABLE, "")
    if not said:
        return None
    try:
        return int(said)
    except ValueError:
        raise ValueError(f"{BODY_MAX_VARIABLE} must be a number of bytes, got {said!r}") from None


@dataclass(kw_only=True)
class HTTPOptions(Checked):
    """HTTP: address, timeouts in seconds, TLS files."""

    host: str | None = "127.0.0.1"
    port: int = 8000
    middlewares: list[Any] = field(default_factory=list)
    location: Any = None
    num_cpus: float = 0
    root_url: str = ""
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: int = 90
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    #: Ours: a longer body is answered 413; None takes any.
    max_request_body_bytes: int | None = field(default_factory=_body_max)
    #: Ours: what is longer is answered 431. The head has its blank line with it.
    max_request_head_bytes: int = 64 * 1024
    max_request_headers: int = 256
    #: Ours, in seconds; None waits forever. For a head from its first byte on (408), for the next bytes of a body (408),
    #: and for a client that takes nothing of its answer (the connection is closed).
    request_head_timeout_s: float | None = 30.0
    request_body_timeout_s: float | None = 60.0
    unread_answer_timeout_s: float | None = 300.0

    def check(self) -> None:
        """A port is a port, and a key comes with its certificate."""
        if not 0 <= self.port <= 65535:
            raise ValueError(f"HTTPOptions.port is a number from 0 to 65535, not {self.port}")
        if self.num_cpus:
            raise ValueError(
                "`num_cpus` in HTTPOptions has been removed. It was for proxies, and there are none here; give "
                "ingress deployments their CPUs with "
                "ray_actor_options"
            )
        try:
            self.location = None if self.location is None else _location(self.location)
        except ValueError as error:
            raise ValueError(
                f"{error}. HTTPOptions.location must be one of Disabled, HeadOnly, EveryNode"
            ) from None
        # No time at all means no limit, as for Ray.
        self.request_timeout_s = self.request_timeout_s or None
        if self.host is None:
            self.location = ProxyLocation.Disabled
        not_negative("HTTPOptions", keep_alive_timeout_s=self.keep_alive_timeout_s)
        positive(
            "HTTPOptions",
            request_timeout_s=self.request_timeout_s,
            max_request_body_bytes=self.max_request_body_bytes,
            max_request_head_bytes=self.max_request_head_bytes,
            max_request_headers=self.max_request_headers,
            request_head_timeout_s=self.request_head_timeout_s,
            request_body_timeout_s=self.request_body_timeout_s,
            unread_answer_timeout_s=self.unread_answer_timeout_s,
        )
        if bool(self.ssl_keyfile) != bool(self.ssl_certfile):
            has, lacks = ("ssl_keyfile", "ssl_certfile")[:: 1 if self.ssl_keyfile else -1]
            raise ValueError(
                "Both ssl_keyfile and ssl_certfile must be provided together to enable HTTPS. "
                f"{has} was given without {lacks}"
            )


@dataclass(kw_only=True)
class gRPCOptions(Checked):
    """gRPC: port, and the functions that add the services, as `module.add_XServicer_to_server`."""

    port: int = 9000
    grpc_servicer_functions: list[Any] = field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = True

    @property
    def grpc_servicer_func_callable(self) -> list[Any]:
        """The functions, loaded where they are named.

        Raises ImportError or AttributeError for what is not there, ValueError for what cannot be called.
        """
        from skate.serve.code.import_path import load  # few serve gRPC

        found = [load(each) if isinstance(each, str) else each for each in self.grpc_servicer_functions]
        for each, named in zip(found, self.grpc_servicer_functions, strict=True):
            if not callable(each):
                raise ValueError(
                    f"{named} is not a callable function! It is a {type(each).__name__}; name what `protoc` calls "
                    "add_...Servicer_to_server"
                )
        return found

    def check(self) -> None:
        """A time is above zero; none at all means no limit."""
        self.request_timeout_s = self.request_timeout_s or None
        positive("gRPCOptions", request_timeout_s=self.request_timeout_s)


@dataclass(kw_only=True)
class ControllerOptions(Checked):
    """How the controller is started."""

    runtime_env: dict[str, Any] | None = None

    def check(self) -> None:
        """A runtime environment of variables alone."""
        if self.runtime_env is None:
            return
        others = sorted(set(self.runtime_env) - {"env_vars"})
        if others:
            raise ValueError(
                f"ControllerOptions.runtime_env only supports ['env_vars'] in this version; got disallowed keys {others}. "
                "Set the runtime_env of replicas in ray_actor_options of their deployment"
            )
        variables = self.runtime_env.get("env_vars", {})
        if not isinstance(variables, dict):
            raise ValueError(
                f"runtime_env.env_vars must be a dict[str, str], got {type(variables).__name__}."
            )
        for key, value in variables.items():
            if not isinstance(key, str) or not key:
                raise ValueError(f"env_vars key must be a non-empty str, got {key!r}.")
            if not isinstance(value, str):
                raise ValueError(
                    f"env_vars[{key!r}] must be str (got {type(value).__name__}); convert it to str"
                )
