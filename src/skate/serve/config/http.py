"""Settings of HTTP, of gRPC and of the controller."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.checked import Checked, not_negative, positive


class ProxyLocation(str, enum.Enum):
    """The nodes that accept requests."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"

    @classmethod
    def _missing_(cls, value: object) -> ProxyLocation | None:
        for each in cls:
            if each.value == value or each.name == value:
                return each
        return None


def _location(location: Any) -> ProxyLocation:
    """Convert a location. Raises ValueError for an unknown one."""
    return ProxyLocation.Disabled if location == "NoServer" else ProxyLocation(location)


#: The environment variable with the default of max_request_body_bytes.
BODY_MAX_VARIABLE = "SKATE_SERVE_MAX_REQUEST_BODY_BYTES"


def _body_max() -> int | None:
    text = os.environ.get(BODY_MAX_VARIABLE, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{BODY_MAX_VARIABLE} must be a number of bytes, got {text!r}") from None


@dataclass(kw_only=True)
class HTTPOptions(Checked):
    """Settings of HTTP: the address, timeouts in seconds, and TLS files."""

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
    #: Skate's own: the most bytes of a body, above which the response is 413; None for no limit.
    max_request_body_bytes: int | None = field(default_factory=_body_max)
    #: Skate's own: the limits of a request's head, including its blank line, above which the response is 431.
    max_request_head_bytes: int = 64 * 1024
    max_request_headers: int = 256
    #: Skate's own, in seconds; None for no limit. The timeouts apply to a head from its first byte (408), to the next
    #: bytes of a body (408), and to a client that does not read its response (the connection is closed).
    request_head_timeout_s: float | None = 30.0
    request_body_timeout_s: float | None = 60.0
    unread_answer_timeout_s: float | None = 300.0

    def check(self) -> None:
        """Check the port, the location, the limits, and that a key has a certificate."""
        if not 0 <= self.port <= 65535:
            raise ValueError(f"HTTPOptions.port must be from 0 to 65535, got {self.port}")
        if self.num_cpus:
            raise ValueError(
                "`num_cpus` in HTTPOptions has been removed, because Skate has no proxies; set the CPUs of ingress "
                "deployments with ray_actor_options"
            )
        try:
            self.location = None if self.location is None else _location(self.location)
        except ValueError as error:
            raise ValueError(
                f"{error}. HTTPOptions.location must be one of Disabled, HeadOnly, EveryNode"
            ) from None
        # As in Ray, 0 means no limit.
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
    """Settings of gRPC: the port, and the functions `module.add_XServicer_to_server` that add the services."""

    port: int = 9000
    grpc_servicer_functions: list[Any] = field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = True

    @property
    def grpc_servicer_func_callable(self) -> list[Any]:
        """The functions, imported if necessary.

        Raises ImportError or AttributeError if one does not exist, ValueError if one is not callable.
        """
        from skate.serve.code.import_path import load  # imported only for gRPC

        found = []
        for each in self.grpc_servicer_functions:
            try:
                found.append(load(each) if isinstance(each, str) else each)
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(f"{each} can't be imported! {error}", name=error.name) from None
        for each, named in zip(found, self.grpc_servicer_functions, strict=True):
            if not callable(each):
                raise ValueError(
                    f"{named} is not a callable function! It is a {type(each).__name__}; name a generated function such as "
                    "add_...Servicer_to_server"
                )
        return found

    def check(self) -> None:
        """Check the timeout; 0 means no limit."""
        self.request_timeout_s = self.request_timeout_s or None
        positive("gRPCOptions", request_timeout_s=self.request_timeout_s)


@dataclass(kw_only=True)
class ControllerOptions(Checked):
    """The options of the controller."""

    runtime_env: dict[str, Any] | None = None

    def check(self) -> None:
        """Check that the runtime environment has only environment variables."""
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
