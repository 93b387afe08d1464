"""The interface of tensor transports, which users can implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass
class CommunicatorMetadata:
    """Base of the data that both sides of a transfer need to find each other."""


@dataclass
class TensorTransportMetadata:
    """The shape and type of each tensor, and the device of all, which a reader needs in advance."""

    tensor_meta: list[tuple[Any, Any]]
    tensor_device: str | None = None


@dataclass
class FetchRequest:
    """A transfer under way; `tensors` are those that have arrived already."""

    obj_id: str
    tensors: list[Any]


class TensorTransportManager(ABC):
    """A transport of tensors. Each process makes one instance of it when it first needs one."""

    @abstractmethod
    def tensor_transport_backend(self) -> str:
        """The name of the transport."""

    @staticmethod
    @abstractmethod
    def is_one_sided() -> bool:
        """True if the reader needs no help of the process that has the tensors."""

    @staticmethod
    @abstractmethod
    def can_abort_transport() -> bool:
        """True if a transfer that has begun can be given up without harm."""

    @abstractmethod
    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """True if the actor can send and receive in this way."""

    @abstractmethod
    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: list[Any]
    ) -> TensorTransportMetadata:
        """Called where tensors were made, once for each value: describe them, and make them ready to be read."""

    @abstractmethod
    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Return the data for two actors to find each other. An actor is None where a driver takes its place."""

    @abstractmethod
    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Called where tensors are read: receive them, into `target_buffers` if there are any."""

    def fetch_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> FetchRequest:
        """Begin to receive. Unless a transport overrides it, all is received here."""
        tensors = self.recv_multiple_tensors(
            obj_id, tensor_transport_metadata, communicator_metadata, target_buffers
        )
        return FetchRequest(obj_id, tensors)

    def wait_fetch_complete(self, fetch_request: FetchRequest, timeout: float = -1) -> list[Any]:
        """The tensors of a transfer, when they have come; `timeout` is in seconds, -1 waits as long as it takes."""
        return fetch_request.tensors

    @abstractmethod
    def send_multiple_tensors(
        self,
        tensors: list[Any],
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
    ) -> None:
        """Called where the tensors are, beside the calls of the actor, if the transport has two sides: send them."""

    @abstractmethod
    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: TensorTransportMetadata, tensors: list[Any]
    ) -> None:
        """Release resources for reading the tensors; called on their process when the last ref of the value is gone."""

    @abstractmethod
    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Abort a transfer."""
