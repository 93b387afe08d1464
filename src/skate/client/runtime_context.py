"""The runtime context: ids, resources, namespace of the running code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skate.client import deprecation
from skate.client.session import session
from skate.core.ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from skate.core.resource.resources import DEVICES, to_amounts
from skate.protocol.values import LOOPBACK

if TYPE_CHECKING:
    from skate.client.process import Process


class NotExecuting(RuntimeError, AssertionError):
    """A question about the running task or actor, in a driver. Ray raises an AssertionError."""


class RuntimeContext:
    """Facts about the current driver, task or actor."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def _execution(self) -> Any:
        return self._process.context

    def get_job_id(self) -> str:
        """The job's id, 8 hexadecimal digits."""
        return self._process.job.hex()

    @property
    def job_id(self) -> JobID:
        """The job's id."""
        deprecation.warn("RuntimeContext.job_id", "get_job_id()")
        return JobID(self._process.job)

    def get_node_id(self) -> str:
        """The node's id, 56 hexadecimal digits."""
        return self._process.node_id.hex()

    @property
    def node_id(self) -> NodeID:
        """The node's id."""
        deprecation.warn("RuntimeContext.node_id", "get_node_id()")
        return NodeID(self._process.node_id)

    def get_worker_id(self) -> str:
        """The id of this process, 56 hexadecimal digits."""
        return WorkerID(self._process.cid.to_bytes(4, "big").rjust(28, b"\0")).hex()

    @property
    def worker_id(self) -> WorkerID:
        """The id of this process."""
        return WorkerID(self._process.cid.to_bytes(4, "big").rjust(28, b"\0"))

    def get_task_id(self) -> str | None:
        """The running task's id, 48 hexadecimal digits; None in a driver."""
        found = self._task_id()
        return found.hex() if found else None

    def _task_id(self) -> bytes:
        if self._execution is None:
            return b""
        task_id: bytes = self._execution.task_id()
        return task_id.rjust(24, b"\0") if task_id else b""

    @property
    def task_id(self) -> TaskID:
        """The running task's id."""
        deprecation.warn("RuntimeContext.task_id", "get_task_id()")
        return TaskID(self._task_id() or b"\xff" * 24)

    def get_task_name(self) -> str | None:
        """The running task's name; None in a driver."""
        template = None if self._execution is None else self._execution.template()
        return None if template is None else template["name"]

    def get_task_function_name(self) -> str | None:
        """The running task's function with its module, such as "jobs.clean" or "jobs.Store.put"; None in a driver."""
        found: str | None = None if self._execution is None else self._execution.function_name()
        return found

    def get_actor_id(self) -> str | None:
        """The current actor's id, 32 hexadecimal digits; None outside of actors."""
        actor_id = None if self._execution is None else self._execution.actor_id
        return actor_id.hex() if actor_id else None

    @property
    def actor_id(self) -> ActorID:
        """The current actor's id."""
        deprecation.warn("RuntimeContext.actor_id", "get_actor_id()")
        return ActorID(bytes.fromhex(self.get_actor_id() or "ff" * 16))

    def get_actor_name(self) -> str | None:
        """The current actor's name, "" if it has none; None outside of actors."""
        if self._execution is None or not self._execution.actor_id:
            return None
        name: str = self._execution.actor_fields.get("name", "")
        return name

    @property
    def namespace(self) -> str:
        """The namespace of this process."""
        return self._process.namespace

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """True if the current actor has been restarted. Raises RuntimeError in a driver."""
        self._need_execution("was_current_actor_reconstructed")
        return bool(self._execution.actor_fields.get("restarts", 0))

    def _need_execution(self, question: str) -> None:
        if self._execution is None:
            raise NotExecuting(
                f"{question} is only available inside a task or an actor, but this is a driver"
            )

    @property
    def current_actor(self) -> Any:
        """A handle to the current actor. Raises RuntimeError outside of actors."""
        if self._execution is None or not self._execution.actor_id:
            raise RuntimeError(
                "This method is only available in an actor: there is no current one in a driver or a task"
            )
        from skate.client.actor.actor_handle import own_handle  # rarely asked

        return own_handle(self._process)

    def get_assigned_resources(self) -> dict[str, float]:
        """The resources of the running task or actor. Raises RuntimeError in a driver, which holds none."""
        self._need_execution("get_assigned_resources()")
        return to_amounts(self._execution.resources())

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Older name of `get_accelerator_ids`."""
        deprecation.warn("get_resource_ids()", "get_accelerator_ids()")
        return self.get_accelerator_ids()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The ids of the accelerators assigned, by kind."""
        gpus = [] if self._execution is None else [str(each) for each in self._execution.gpus()]
        others = {} if self._execution is None else self._execution.devices()
        return {"GPU": gpus, **{kind: [str(each) for each in others.get(kind, ())] for kind in DEVICES}}

    def get_placement_group_id(self) -> str | None:
        """The placement group that the code runs in, or None."""
        group = None if self._execution is None else self._execution.group
        return group.hex() if group else None

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        """The placement group that the code runs in, or None."""
        deprecation.warn("RuntimeContext.current_placement_group_id", "get_placement_group_id()")
        group = None if self._execution is None else self._execution.group
        return PlacementGroupID(group) if group else None

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """True if tasks started from here run in the same placement group."""
        return self._execution is not None and self._execution.captured_group is not None

    def get_node_labels(self) -> dict[str, str]:
        """The labels of the node that the code runs on."""
        mine = self.get_node_id()
        for node in self._process.request("rows", "nodes", {"node_id": mine}):
            return dict(node["labels"])
        return {}

    @property
    def runtime_env(self) -> Any:
        """The runtime environment of the running code."""
        from skate.runtime_env import RuntimeEnv  # rarely asked

        return RuntimeEnv.deserialize(self.get_runtime_env_string())

    def get_runtime_env_string(self) -> str:
        """The runtime environment of the running code as JSON."""
        if self._execution is None:
            import json  # rarely asked

            return json.dumps(self._process.job_environment or {})
        template = self._execution.template() or {}
        text: str = template.get("environment") or self._execution.actor_environment or "{}"
        return text

    def is_canceled(self) -> bool:
        """True if the running task has been cancelled; for code that looks now and then. Raises RuntimeError in a driver."""
        if self._execution is None:
            raise RuntimeError(
                "is_canceled(): This method is only available when the process is a worker, but this is a driver"
            )
        return bool(self._execution.is_cancelled())

    @property
    def gcs_address(self) -> str:
        """Where the cluster is reached; empty for a node hosted in its driver."""
        return session.address_of_node()

    def get_session_name(self) -> str:
        """A name of the running session."""
        return f"session_{os.getpid()}"

    def get_temp_dir(self) -> str:
        """Where temporary files of the session would go."""
        import tempfile  # rarely asked

        return tempfile.gettempdir()

    def get(self) -> dict[str, Any]:
        """The main facts as a dict, as in older programs."""
        deprecation.warn("RuntimeContext.get()", "the get_..._id() methods")
        process = self._process
        facts: dict[str, Any] = {
            "job_id": JobID(process.job),
            "node_id": NodeID(process.node_id),
            "namespace": self.namespace,
        }
        if self._execution is not None:
            facts["task_id"] = TaskID(self._task_id() or b"\xff" * 24)
            actor_id = self.get_actor_id()
            if actor_id:
                facts["actor_id"] = ActorID(bytes.fromhex(actor_id))
        return facts


def get_runtime_context() -> RuntimeContext:
    """Return the context of the current driver, task or actor; starts a session if there is none."""
    return RuntimeContext(session.current())


def get_gpu_ids() -> list[Any]:
    """The ids of the GPUs that the running task or actor holds; empty in a driver."""
    process = session.current()
    return [] if process.context is None else list(process.context.gpus())


def node_ip_address() -> str:
    """The address of this node as seen by other nodes; loopback while there are none."""
    process = session.current_or_none()
    return LOOPBACK if process is None else process.node_ip_address


def in_worker() -> bool:
    """True where a task or an actor runs; false in a driver, and where no session runs."""
    process = session.current_or_none()
    return process is not None and process.context is not None
