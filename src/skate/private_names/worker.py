"""The names of `ray._private.worker`: the worker of this process, its ids and its node."""

from __future__ import annotations

from typing import Any

import skate
from skate.client.object.generators import ObjectRefGenerator
from skate.client.runtime_context import in_worker
from skate.client.session import session
from skate.client.session.session import RayContext

BaseContext = RayContext
StreamingObjectRefGenerator = ObjectRefGenerator
#: Programs set it to True, so that Ray does not warn.
blocking_get_inside_async_warned = False


class CoreWorker:
    """The methods of a core worker that programs use."""

    def get_actor_id(self) -> Any:
        """Return the id of the running actor; nil outside of actors."""
        return skate.ActorID(bytes.fromhex(skate.get_runtime_context().get_actor_id() or "ff" * 16))

    def get_current_task_id(self) -> Any:
        """Return the id of the running task; nil outside of tasks."""
        return skate.TaskID(bytes.fromhex(skate.get_runtime_context().get_task_id() or "ff" * 24))

    def get_current_job_id(self) -> Any:
        """Return the id of the job."""
        return skate.JobID(bytes.fromhex(skate.get_runtime_context().get_job_id()))

    def get_current_node_id(self) -> Any:
        """Return the id of the node."""
        return skate.NodeID(bytes.fromhex(skate.get_runtime_context().get_node_id()))

    def get_worker_id(self) -> Any:
        """Return the id of this process."""
        return skate.WorkerID(bytes.fromhex(skate.get_runtime_context().get_worker_id()))


class Node:
    """The node of the session."""

    @property
    def address_info(self) -> dict[str, Any]:
        """The address info that `init` returned; empty without a session."""
        process = session.current_or_none()
        return {} if process is None else RayContext(process).address_info

    @property
    def address(self) -> str:
        """The address of the session."""
        return str(self.address_info.get("address", ""))

    @property
    def gcs_address(self) -> str:
        """The address of the node."""
        return self.address

    @property
    def node_ip_address(self) -> str:
        """The address of this machine."""
        return str(self.address_info["node_ip_address"])

    @property
    def node_id(self) -> str:
        """The node's id, 56 hexadecimal digits."""
        return str(skate.get_runtime_context().get_node_id())

    @property
    def unique_id(self) -> str:
        """The id of the node."""
        return self.node_id

    def get_session_dir_path(self) -> str:
        """Return the folder of the session; empty if it has none."""
        return str(self.address_info.get("session_dir", ""))


class Worker:
    """This process as a member of a session."""

    def __init__(self) -> None:
        self.core_worker = CoreWorker()

    @property
    def connected(self) -> bool:
        """True while a session runs in this process."""
        return session.is_initialized()

    @property
    def mode(self) -> int | None:
        """SCRIPT_MODE in a driver, WORKER_MODE in a worker, None without a session."""
        if not self.connected:
            return None
        return skate.WORKER_MODE if in_worker() else skate.SCRIPT_MODE

    @property
    def node(self) -> Node | None:
        """The node, or None without a session."""
        return _global_node if self.connected else None

    @property
    def namespace(self) -> str:
        """The namespace of this process."""
        return str(skate.get_runtime_context().namespace)

    @property
    def current_job_id(self) -> Any:
        """The id of the job."""
        return self.core_worker.get_current_job_id() if self.connected else skate.JobID.nil()

    @property
    def current_task_id(self) -> Any:
        """The id of the running task; nil outside of tasks."""
        return self.core_worker.get_current_task_id()

    @property
    def current_node_id(self) -> Any:
        """The id of the node."""
        return self.core_worker.get_current_node_id()

    @property
    def actor_id(self) -> Any:
        """The id of the running actor; nil outside of actors."""
        return self.core_worker.get_actor_id()

    @property
    def worker_id(self) -> bytes:
        """The id of this process."""
        return bytes.fromhex(skate.get_runtime_context().get_worker_id())

    @property
    def runtime_env(self) -> str:
        """The runtime environment of the running code as JSON."""
        return str(skate.get_runtime_context().get_runtime_env_string())

    @property
    def gcs_client(self) -> None:
        """None: there is no such server."""
        return

    def check_connected(self) -> None:
        """Raise RaySystemError unless a session runs in this process."""
        if not self.connected:
            from skate.exceptions import RaySystemError  # imported only for the error

            raise RaySystemError("Ray has not been started yet. You can start Ray with 'ray.init()'.")


global_worker = Worker()
_global_node = Node()
