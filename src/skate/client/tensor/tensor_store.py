"""The tensors that a process keeps outside the object store while refs to them exist."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from skate.client.tensor import tensor_transports
from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process

logger = logging.getLogger(__name__)


class StoredTensors:
    """The tensors of one value."""

    __slots__ = ("object_id", "transport", "meta", "tensors")

    def __init__(self, object_id: str, transport: str, meta: Any, tensors: list[Any]) -> None:
        self.object_id = object_id
        self.transport = transport
        self.meta = meta
        self.tensors = tensors


class TensorStore:
    """The tensors of one process.

    Each value contains the ref of a token. The node reports when the last ref to the token has been deleted.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._kept: dict[bytes, StoredTensors] = {}
        self._ended: deque[bytes] = deque()
        self._freeing = False
        process.handlers[m.FREED] = self._on_freed

    def add(self, object_id: str, transport: str, tensors: list[Any]) -> tuple[ObjectRef[Any], Any]:
        """Store tensors; return the token that keeps them, and the transport's metadata."""
        manager = tensor_transports.manager(transport)
        meta = manager.extract_tensor_transport_metadata(object_id, tensors)
        allowed = tensor_transports.info(transport).devices
        if meta.tensor_meta and meta.tensor_device not in allowed:
            raise ValueError(
                f"Tensor transport backend {transport} does not support tensor transfer on device {meta.tensor_device}. "
                f"It takes tensors on: {', '.join(allowed)}"
            )
        process = self._process
        token: ObjectRef[Any] = process.store(transport)
        with process.lock:
            process.escape(token)
            with self._changed:
                self._kept[token._id] = StoredTensors(object_id, transport, meta, tensors)
            process.send(m.Watch(m.WATCH, token._id))
        return token, meta

    def find(self, token: bytes) -> StoredTensors | None:
        """Return the tensors of a token, or None."""
        return self._kept.get(token)

    def holds(self, tensor: Any) -> bool:
        """Return True if this tensor object is stored."""
        return any(each is tensor for kept in list(self._kept.values()) for each in kept.tensors)

    def count(self) -> int:
        """Return the number of values whose tensors are stored."""
        return len(self._kept)

    def wait_freed(self, tensor: Any, timeout: float | None) -> None:
        """Wait until a tensor is no longer stored. Raises TimeoutError."""
        with self._changed:
            freed = self._changed.wait_for(lambda: not self.holds(tensor), timeout)
        if not freed:
            raise TimeoutError(
                f"Tensor {tensor!r:.80} not freed from RDT object store after {timeout}s. ObjectRefs of values that contain it "
                "still exist; delete all of them to free it"
            )

    def _on_freed(self, message: m.Freed) -> None:
        """Free the tensors of a token that has no refs. A thread does it, because a transport may run user code."""
        _, oid = message
        with self._changed:
            self._ended.append(oid)
            if not self._freeing:
                self._freeing = True
                threading.Thread(target=self._free, name="skate-tensors", daemon=True).start()

    def _free(self) -> None:
        while True:
            with self._changed:
                if not self._ended:
                    self._freeing = False
                    return
                kept = self._kept.get(self._ended[0])
            if kept is not None:
                try:
                    manager = tensor_transports.manager(kept.transport)
                    manager.garbage_collect(kept.object_id, kept.meta, kept.tensors)
                except Exception:  # the transport may be user code
                    logger.exception("The transport %s failed to free %s", kept.transport, kept.object_id)
            del kept
            with self._changed:
                self._kept.pop(self._ended.popleft(), None)
                self._changed.notify_all()


_making = threading.Lock()


def store_of(process: Process) -> TensorStore:
    """Return the store of a process, created if necessary."""
    with _making:
        found: TensorStore | None = getattr(process, "tensors", None)
        if found is None:
            found = process.tensors = TensorStore(process)
        return found


def existing(process: Process | None) -> TensorStore | None:
    """Return the store of a process, or None if it has none."""
    return getattr(process, "tensors", None)
