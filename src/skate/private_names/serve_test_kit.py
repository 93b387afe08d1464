"""Functions of Ray Serve's test kit that tests of programs import: states, replicas and addresses of applications."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import random
from collections.abc import AsyncIterator
from typing import Any

import skate
from skate import serve
from skate.private_names.test_kit import wait_for_condition
from skate.serve.controller.states import ApplicationStatus, DeploymentStatus, ReplicaState
from skate.serve.identity import DEFAULT_APP
from skate.serve.routing import watch
from skate.serve.schema.details import RequestProtocol

# states


def check_running(app_name: str = DEFAULT_APP) -> bool:
    """Return True if an application runs. Raises AssertionError otherwise, KeyError if there is none of that name."""
    return check_apps_running([app_name])


def check_apps_running(apps: list[str]) -> bool:
    """Return True if all of these applications run. Raises AssertionError otherwise."""
    found = serve.status().applications
    for name in apps:
        assert found[name].status == ApplicationStatus.RUNNING, f"{name}: {found[name]}"
    return True


def check_deployment_status(
    name: str, expected_status: DeploymentStatus, app_name: str = DEFAULT_APP
) -> bool:
    """Return True if a deployment has a status. Raises AssertionError otherwise."""
    found = serve.status().applications[app_name].deployments[name]
    assert found.status == expected_status, f"{name}: {found}"
    return True


def get_deployment_details(deployment_name: str, app_name: str = DEFAULT_APP) -> dict[str, Any]:
    """Return the state of a deployment, as in the REST API."""
    found: dict[str, Any] = _details()["applications"][app_name]["deployments"][deployment_name]
    return found


# replicas


def get_num_alive_replicas(deployment_name: str, app_name: str = DEFAULT_APP) -> int:
    """Return the number of a deployment's replicas that have a process; 0 if there is no such deployment."""
    app = serve.status().applications.get(app_name)
    found = None if app is None else app.deployments.get(deployment_name)
    if found is None:
        return 0
    states: dict[ReplicaState, int] = found.replica_states
    return sum(
        count for state, count in states.items() if state not in (ReplicaState.STARTING, ReplicaState.STOPPED)
    )


def check_num_replicas_eq(
    name: str, target: int, app_name: str = DEFAULT_APP, use_controller: bool = False
) -> bool:
    """Return True if a deployment has `target` replicas; with `use_controller` only running ones count.

    Raises AssertionError otherwise.
    """
    if use_controller:
        states = serve.status().applications[app_name].deployments[name].replica_states
        count = states.get(ReplicaState.RUNNING, 0)
    else:
        count = get_num_alive_replicas(name, app_name)
    assert count == target, f"{name} has {count} replicas, not {target}"
    return True


def check_num_replicas_gte(name: str, target: int, app_name: str = DEFAULT_APP) -> bool:
    """Return True if a deployment has at least `target` replicas. Raises AssertionError otherwise."""
    count = get_num_alive_replicas(name, app_name)
    assert count >= target, f"{name} has {count} replicas, fewer than {target}"
    return True


def check_num_replicas_lte(name: str, target: int, app_name: str = DEFAULT_APP) -> bool:
    """Return True if a deployment has at most `target` replicas. Raises AssertionError otherwise."""
    count = get_num_alive_replicas(name, app_name)
    assert count <= target, f"{name} has {count} replicas, more than {target}"
    return True


# addresses


def _details() -> dict[str, Any]:
    found: dict[str, Any] = skate.get(watch.controller().details.remote())
    return found


def get_application_urls(
    protocol: str | RequestProtocol = RequestProtocol.HTTP,
    app_name: str = DEFAULT_APP,
    use_localhost: bool = True,
    is_websocket: bool = False,
    exclude_route_prefix: bool = False,
    from_proxy_manager: bool = False,
) -> list[str]:
    """Return the addresses at which an application answers.

    Args:
        protocol: "HTTP" or "gRPC".
        app_name: the application. Raises AssertionError if there is none of that name.
        use_localhost: False for the address that Serve listens on, instead of `localhost`.
        is_websocket: True for the scheme `ws`.
        exclude_route_prefix: True for the address alone.
        from_proxy_manager: accepted without effect, because Serve has no proxies.

    Raises ValueError if Serve does not listen for the protocol.
    """
    protocol = RequestProtocol(protocol)
    found = _details()
    assert app_name in found["applications"], (
        f"there is no application {app_name!r}; the applications are: {', '.join(found['applications']) or 'none'}"
    )
    options = found["http_options"] if protocol == RequestProtocol.HTTP else found["grpc_options"]
    if protocol == RequestProtocol.UNDEFINED or options is None or not found["proxies"]:
        raise ValueError(f"application {app_name!r} has no address for the protocol {protocol.value!r}")
    host = "localhost" if use_localhost else found["http_options"]["host"]
    address = f"[{host}]:{options['port']}" if ":" in host else f"{host}:{options['port']}"
    if protocol == RequestProtocol.GRPC:
        if is_websocket:
            raise ValueError("is_websocket=True is for the protocol HTTP, not for gRPC")
        return [address]
    prefix = "" if exclude_route_prefix else found["applications"][app_name]["route_prefix"] or ""
    return [f"{'ws' if is_websocket else 'http'}://{address}{prefix}".rstrip("/")]


def get_application_url(
    protocol: str | RequestProtocol = RequestProtocol.HTTP,
    app_name: str = DEFAULT_APP,
    use_localhost: bool = True,
    is_websocket: bool = False,
    exclude_route_prefix: bool = False,
    from_proxy_manager: bool = False,
) -> str:
    """Return one of the addresses of `get_application_urls`, which takes the same arguments."""
    return random.choice(
        get_application_urls(
            protocol, app_name, use_localhost, is_websocket, exclude_route_prefix, from_proxy_manager
        )
    )


def request_with_retries(timeout: float = 30, app_name: str = DEFAULT_APP) -> Any:
    """Send GET to an application until it answers, and return the response. Raises TimeoutError."""
    import httpx  # optional: of tests alone

    answers: list[Any] = []

    def ask() -> bool:
        try:
            answers.append(httpx.get(get_application_url("HTTP", app_name=app_name), timeout=timeout))
        except httpx.RequestError:
            return False
        return True

    try:
        wait_for_condition(ask, timeout=timeout)
    except RuntimeError as error:
        raise TimeoutError(str(error)) from error
    return answers[-1]


# nodes


def _node_id() -> str:
    return str(skate.get_runtime_context().get_node_id())


#: A remote function that returns the id of the node that it runs on.
get_node_id = skate.remote(num_cpus=0)(_node_id)


def check_num_alive_nodes(target: int) -> bool:
    """Return True if `target` nodes are alive. Raises AssertionError otherwise."""
    count = sum(1 for node in skate.nodes() if node["Alive"])
    assert count == target, f"{count} nodes are alive, not {target}"
    return True


# parts of test programs


def tlog(s: str, level: str = "INFO") -> None:
    """Print a line with the time."""
    print(f"[{level}] {datetime.datetime.now():%H:%M:%S.%f} {s}")


@contextlib.asynccontextmanager
async def send_signal_on_cancellation(signal_actor: Any) -> AsyncIterator[None]:
    """Wait to be cancelled, and send a SignalActor's signal then. Raises RuntimeError if nobody cancels."""
    try:
        yield
        await asyncio.sleep(100)
    except (asyncio.CancelledError, skate.exceptions.TaskCancelledError):
        await signal_actor.send.remote()
    else:
        raise RuntimeError("nobody cancelled the block of send_signal_on_cancellation within 100 s")


class _GetPID:
    """A deployment that answers with its process id."""

    def __call__(self) -> int:
        return os.getpid()


GetPID = serve.deployment(name="GetPID")(_GetPID)
get_pid_entrypoint = GetPID.bind()


@skate.remote(num_cpus=0)
class Accumulator:
    """Collects items from several actors."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def add(self, item: Any) -> None:
        """Add an item."""
        self.items.append(item)

    def get(self) -> list[Any]:
        """Return all items."""
        return list(self.items)

    def count(self) -> int:
        """Return the number of items."""
        return len(self.items)


@skate.remote(num_cpus=0)
class Barrier:
    """Releases its callers once `n` of them wait."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.count = 0
        self.event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the other callers."""
        self.count += 1
        if self.count >= self.n:
            self.event.set()
        await self.event.wait()

    def get_count(self) -> int:
        """Return the number of callers so far."""
        return self.count


@skate.remote(num_cpus=0)
class Counter:
    """Releases its waiting callers once it has counted to `target`."""

    def __init__(self, target: int) -> None:
        self.count = 0
        self.target = target
        self.ready_event = asyncio.Event()

    def inc(self) -> None:
        """Count one more."""
        self.count += 1
        if self.count == self.target:
            self.ready_event.set()

    async def wait(self) -> None:
        """Wait until the target is reached."""
        await self.ready_event.wait()


@skate.remote(num_cpus=0)
class SharedCounter:
    """A number that several actors count up."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> int:
        """Count one more, and return the number."""
        self.count += 1
        return self.count

    def get(self) -> int:
        """Return the number."""
        return self.count


@skate.remote(num_cpus=0)
class SharedFlag:
    """A flag that several actors set and read."""

    def __init__(self) -> None:
        self.value = False

    def set(self) -> None:
        """Set the flag."""
        self.value = True

    def clear(self) -> None:
        """Clear the flag."""
        self.value = False

    def is_set(self) -> bool:
        """Return True if the flag is set."""
        return self.value
