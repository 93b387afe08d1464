"""Tensor transfers between the members of a collective group: gloo for main memory, NCCL for GPUs."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skate.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    FetchRequest,
    TensorTransportManager,
    TensorTransportMetadata,
)


@dataclass
class CollectiveTransportMetadata(TensorTransportMetadata):
    """Metadata with the actor's groups, and its rank in each."""

    ranks: dict[str, int] = field(default_factory=dict)


@dataclass
class CollectiveCommunicatorMetadata(CommunicatorMetadata):
    """A group, the ranks of the two actors in it, and the tag of one transfer's messages."""

    communicator_name: str = ""
    src_rank: int | None = None
    dst_rank: int | None = None
    tag: int = 0


@dataclass
class _Receiving(FetchRequest):
    works: list[Any] = field(default_factory=list)


def _no_communicator(source: Any, receiver: Any, backend: str) -> ValueError:
    return ValueError(
        f"No communicators found for actors {source} and {receiver}. Tensors travel by {backend} between members of one group: "
        "create it with `ray.experimental.collective.create_collective_group` first"
    )


class CollectiveTensorTransport(TensorTransportManager):
    """Base of the gloo and NCCL transports."""

    def __init__(self) -> None:
        self._tags = itertools.count(1)
        self._lock = threading.Lock()
        self._channels: dict[tuple[str, int, int], Any] = {}

    @staticmethod
    def is_one_sided() -> bool:
        """False: one member sends, the other one receives."""
        return False

    @staticmethod
    def can_abort_transport() -> bool:
        """Return False."""
        return False

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """True if this process has created a group that contains the actor."""
        from skate.experimental.collective import get_collective_groups  # imports torch

        return bool(get_collective_groups([actor], self.tensor_transport_backend()))

    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: list[Any]
    ) -> TensorTransportMetadata:
        """Describe the tensors. Raises ValueError unless all are on devices of one kind."""
        kinds = {each.device.type for each in rdt_object}
        if len(kinds) > 1:
            raise ValueError(
                f"All tensors in an RDT object must have the same device type. These are on: {', '.join(sorted(kinds))}"
            )
        described = [(each.shape, each.dtype) for each in rdt_object]
        return CollectiveTransportMetadata(described, next(iter(kinds), None), self._own_ranks())

    def _own_ranks(self) -> dict[str, int]:
        from skate.util.collective import collective as members  # imports torch

        groups = members._groups
        with groups.lock:
            backend = self.tensor_transport_backend()
            return {name: group.rank for name, group in groups.groups.items() if group.backend() == backend}

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Return the group of both actors that this process has created. Raises ValueError if there is none."""
        from skate.experimental.collective import get_collective_groups  # imports torch

        name = backend or self.tensor_transport_backend()
        found = get_collective_groups([src_actor, dst_actor], name)
        if not found:
            raise _no_communicator(src_actor, dst_actor, name)
        group = found[0]
        return CollectiveCommunicatorMetadata(
            group.name, group.get_rank(src_actor), group.get_rank(dst_actor)
        )

    def own_communicator(
        self, source: Any, meta: CollectiveTransportMetadata, ask: Callable[[], Any]
    ) -> CollectiveCommunicatorMetadata:
        """Return the group that this actor shares with the source. Raises ValueError if there is none."""
        own = self._own_ranks()
        common = sorted(own.keys() & meta.ranks.keys())
        if own and not common:  # the source may have joined the group later
            meta = ask()
            common = sorted(own.keys() & meta.ranks.keys())
        if not common:
            raise _no_communicator(source, "this one", self.tensor_transport_backend())
        name = common[0]
        return CollectiveCommunicatorMetadata(name, meta.ranks[name], own[name], next(self._tags))

    def _channel(self, metadata: CollectiveCommunicatorMetadata) -> tuple[Any, int, int]:
        """A process group of torch, and the ranks in it."""
        from skate.util.collective import collective as members  # imports torch

        assert metadata.src_rank is not None
        assert metadata.dst_rank is not None
        found: Any = members._groups.find(metadata.communicator_name)
        return found._group, metadata.src_rank, metadata.dst_rank

    @contextlib.contextmanager
    def receiving(self, metadata: CollectiveCommunicatorMetadata) -> Iterator[None]:
        """Held during one transfer; gloo has tags and needs no order."""
        yield

    def fetch_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> FetchRequest:
        """Create tensors, and begin to receive into them."""
        import torch  # the owner of the tensors and the reader have it

        metadata = communicator_metadata
        assert isinstance(metadata, CollectiveCommunicatorMetadata)
        meta = tensor_transport_metadata
        tensors = target_buffers or [
            torch.empty(shape, dtype=dtype, device=meta.tensor_device) for shape, dtype in meta.tensor_meta
        ]
        group, source, _ = self._channel(metadata)
        works = [group.recv([_bytes_of(each)], source, metadata.tag) for each in tensors if each.numel()]
        return _Receiving(obj_id, tensors, works)

    def wait_fetch_complete(self, fetch_request: FetchRequest, timeout: float = -1) -> list[Any]:
        """Wait for the transfer begun by `fetch_multiple_tensors`."""
        if isinstance(fetch_request, _Receiving):
            for work in fetch_request.works:
                work.wait()
        return fetch_request.tensors

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Receive the tensors, and wait for them."""
        return self.wait_fetch_complete(
            self.fetch_multiple_tensors(
                obj_id, tensor_transport_metadata, communicator_metadata, target_buffers
            )
        )

    def send_multiple_tensors(
        self,
        tensors: list[Any],
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
    ) -> None:
        """Send the tensors, in their order."""
        metadata = communicator_metadata
        assert isinstance(metadata, CollectiveCommunicatorMetadata)
        group, _, receiver = self._channel(metadata)
        sent = [_bytes_of(each.detach().contiguous()) for each in tensors if each.numel()]
        for work in [group.send([each], receiver, metadata.tag) for each in sent]:
            work.wait()

    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: TensorTransportMetadata, tensors: list[Any]
    ) -> None:
        """No-op: nothing was allocated for readers."""

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Raise NotImplementedError: a group cannot abort a transfer."""
        raise NotImplementedError("a transfer between members of a collective group cannot be aborted")


def _bytes_of(tensor: Any) -> Any:
    """View the memory as bytes, which both libraries support for any type."""
    import torch  # the tensor came from torch

    return tensor.reshape(-1).view(torch.uint8)


class GLOOTensorTransport(CollectiveTensorTransport):
    """Tensors in main memory."""

    def tensor_transport_backend(self) -> str:
        """Return "GLOO"."""
        return "GLOO"


class NCCLTensorTransport(CollectiveTensorTransport):
    """Tensors on GPUs. Each direction between two actors has its own communicator, so that neither waits for
    the other."""

    def __init__(self) -> None:
        super().__init__()
        self._order = threading.RLock()

    def tensor_transport_backend(self) -> str:
        """Return "NCCL"."""
        return "NCCL"

    @contextlib.contextmanager
    def receiving(self, metadata: CollectiveCommunicatorMetadata) -> Iterator[None]:
        """Allow one transfer at a time: NCCL has no tags, so both sides keep the order of the requests."""
        with self._order:
            yield

    def _channel(self, metadata: CollectiveCommunicatorMetadata) -> tuple[Any, int, int]:
        group, source, receiver = super()._channel(metadata)
        key = (metadata.communicator_name, source, receiver)
        with self._lock:
            known = self._channels.get(key)
            if known is None or known[0] is not group:
                import torch  # the group came from torch

                from skate.util.collective import collective as members  # imported only if used

                distributed: Any = torch.distributed
                owner: Any = members._groups.find(metadata.communicator_name)
                rank = 0 if owner.rank == source else 1
                store = distributed.PrefixStore(
                    f"{metadata.communicator_name}/{source}-{receiver}", owner._store
                )
                made = distributed.ProcessGroupNCCL(store, rank, 2, distributed.ProcessGroupNCCL.Options())
                known = self._channels[key] = (group, made)
        return known[1], 0, 1
