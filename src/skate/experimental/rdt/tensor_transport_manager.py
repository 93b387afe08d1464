"""The interface of tensor transports, which users can implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass
class CommunicatorMetadata:
    """Base class of the data with which both sides of a transfer find each other."""


@dataclass
class TensorTransportMetadata:
    """The shape and type of each tensor, and the device of all, which readers need in advance."""

    tensor_meta: list[tuple[Any, Any]]
    tensor_device: str | None = None


@dataclass
class FetchRequest:
    """A transfer in progress; `tensors` are those that have already arrived."""

    obj_id: str
    tensors: list[Any]


class TensorTransportManager(ABC):
    """A transport of tensors. Each process creates one instance on first use."""

    @abstractmethod
    def tensor_transport_backend(self) -> str:
        """The name of the transport."""

    @staticmethod
    @abstractmethod
    def is_one_sided() -> bool:
        """True if the reader does not need the help of the process with the tensors."""

    @staticmethod
    @abstractmethod
    def can_abort_transport() -> bool:
        """True if a transfer can be aborted without harm."""

    @abstractmethod
    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """True if the actor can send and receive in this way."""

    @abstractmethod
    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: list[Any]
    ) -> TensorTransportMetadata:
        """Describe tensors and prepare them for reading; called in the process that created them, once per value."""

    @abstractmethod
    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Return the data for two actors to find each other. An actor is None if its place is taken by a driver."""

    @abstractmethod
    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Receive tensors, into `target_buffers` if there are any; called in the reading process."""

    def fetch_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> FetchRequest:
        """Begin to receive. The default implementation receives everything here."""
        tensors = self.recv_multiple_tensors(
            obj_id, tensor_transport_metadata, communicator_metadata, target_buffers
        )
        return FetchRequest(obj_id, tensors)

    def wait_fetch_complete(self, fetch_request: FetchRequest, timeout: float = -1) -> list[Any]:
        """Wait for the tensors of a transfer; `timeout` is in seconds, -1 for no limit."""
        return fetch_request.tensors

    @abstractmethod
    def send_multiple_tensors(
        self,
        tensors: list[Any],
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
    ) -> None:
        """Send tensors, if the transport is two-sided; called in their process, concurrently with the actor's calls."""

    @abstractmethod
    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: TensorTransportMetadata, tensors: list[Any]
    ) -> None:
        """Release resources for reading the tensors; called in their process when the last ref to the value is gone."""

    @abstractmethod
    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Abort a transfer."""
