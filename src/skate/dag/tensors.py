"""Values whose tensors are sent separately by a Communicator: the value contains placeholders for them."""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple

from skate.dag.collective_node import joined


class Envelope:
    """A value without its tensors, and the (shape, dtype) of each tensor."""

    def __init__(self, content: bytes, tensors: list[tuple[Any, Any]]) -> None:
        self.content = content
        self.tensors = tensors


class Route(NamedTuple):
    """The route of the tensors of one ring: the communicator, the sending rank, the receiving ranks."""

    communicator: Any
    own_rank: int
    peers: tuple[int, ...]
    device: str = "default"

    def prepare(self, ready: dict[Any, Any]) -> Route:
        """Return the route with this process's joined communicator."""
        return self._replace(communicator=joined(self.communicator, self.own_rank, ready))

    def pack(self, value: Any) -> tuple[Envelope, list[Any]]:
        """Separate a value from its tensors; return both."""
        import torch

        from skate import cloudpickle  # takes 10 ms, and only such values need it

        tensors: list[Any] = []

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
            def persistent_id(self, obj: Any) -> Any:
                if isinstance(obj, torch.Tensor):
                    tensors.append(obj)
                    return len(tensors) - 1
                return None

        file = io.BytesIO()
        Pickler(file, protocol=5).dump(value)
        return Envelope(file.getvalue(), [(tuple(each.shape), each.dtype) for each in tensors]), tensors

    def send(self, tensors: list[Any]) -> None:
        """Send the tensors to every reader."""
        for peer in self.peers:
            for tensor in tensors:
                self.communicator.send(tensor, peer)

    def receive(self, envelope: Envelope) -> Any:
        """Receive the tensors of a value, and return the complete value."""
        tensors = [
            self.communicator.recv(shape, dtype, self.peers[0], _allocate)
            for shape, dtype in envelope.tensors
        ]

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, number: Any) -> Any:
                return tensors[number]

        return Unpickler(io.BytesIO(envelope.content)).load()


def _allocate(shape: Any, dtype: Any) -> Any:
    import torch  # already imported, because the process receives tensors

    return torch.empty(shape, dtype=dtype, device="cuda" if torch.cuda.is_available() else "cpu")
