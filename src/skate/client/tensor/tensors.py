"""Values whose tensors stay in the process that created them: how they are packed, and how readers fetch the tensors."""

from __future__ import annotations

import contextlib
import io
import pickle
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_descriptor import ActorDescriptor
from skate.client.actor.actor_handle import SYSTEM_GROUP, ActorHandle
from skate.client.actor.actor_hold import ActorHold
from skate.client.object.object_ref import ObjectRef
from skate.client.session import session
from skate.client.tensor import made_refs, tensor_transports
from skate.client.tensor.tensor_store import existing, store_of
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

_thread = tensor_transports.reading
#: The tensors, or the device, into which a value is received, by the id of the value.
_targets: dict[str, Any] = {}


class SealedValue:
    """A value without its tensors. Packed, it has the id of the actor that has them and the token that keeps them."""

    def __init__(self, parts: tuple[Any, ...], inner: values.Packed) -> None:
        self._parts = parts
        self._inner = inner

    def __reduce__(self) -> Any:
        met = values.collector()
        if met is not None:
            met.extend(self._inner.met)
        buffers = [pickle.PickleBuffer(each) for each in self._inner.buffers]
        return open_sealed, (*self._parts, self._inner.head, buffers)


def seal(process: Process, oid: bytes, transport: str, value: Any) -> Any:
    """Return the value without its tensors, which stay in this process; the value itself if it has none.

    Raises ValueError for tensors that the transport cannot carry.
    """
    info = tensor_transports.info(transport)
    inner, found = _pack_without(value, info.data_type)
    if not found:
        return value
    object_id = oid.hex()
    token, meta = store_of(process).add(object_id, transport, found)
    context = process.context
    source = b"" if context is None else context.actor_id
    return SealedValue(
        (token, source, object_id, transport, tensor_transports.custom(transport), meta), inner
    )


def _pack_without(value: Any, data_type: type) -> tuple[values.Packed, list[Any]]:
    found: list[Any] = []
    buffers: list[Any] = []

    class TensorPickler(values.pickler()):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is data_type:
                found.append(obj)
                return _tensor_at, (len(found) - 1,)
            return super().reducer_override(obj)

    file = io.BytesIO()
    with values.collecting() as met:
        TensorPickler(file, protocol=5, buffer_callback=lambda each: buffers.append(each.raw())).dump(value)
    return values.Packed(file.getvalue(), buffers, met), found


def _tensor_at(index: int) -> Any:
    return _thread.tensors[index]


def open_sealed(
    token: ObjectRef[Any], source: bytes, object_id: str, transport: str, info: Any, meta: Any, *packed: Any
) -> Any:
    """Return a sealed value with its tensors."""
    tensor_transports.learn(transport, info)
    tensors = _find(token, source, object_id, transport, meta)
    outer = getattr(_thread, "tensors", None)
    _thread.tensors = tensors
    try:
        head, buffers = packed
        return pickle.loads(head, buffers=buffers)
    finally:
        _thread.tensors = outer


def _find(token: ObjectRef[Any], source: bytes, object_id: str, transport: str, meta: Any) -> list[Any]:
    process = session.current()
    store = existing(process)
    through_store = getattr(_thread, "through_store", False)
    kept = None if store is None or through_store else store.find(token._id)
    if kept is not None:
        return list(kept.tensors)
    manager = tensor_transports.manager(transport)
    if through_store:
        if not source:
            raise ValueError(
                "_use_object_store=True is not supported for RDT objects created by the driver. Leave it out: their transport, "
                f"{transport}, needs only the reader"
            )
        copies: list[Any] = _ask(process, source, _kept_tensors, token._id)
        return copies
    if manager.is_one_sided():
        actor = _actor(process, source) if source else None
        communicator_meta = manager.get_communicator_metadata(actor, _own_handle(process), transport)
        request = manager.fetch_multiple_tensors(
            object_id, meta, communicator_meta, _target_buffers(object_id, meta)
        )
        return _received(manager.wait_fetch_complete(request), meta)
    if not getattr(_thread, "argument", False):
        raise ValueError(
            f"ray.get is not allowed on RDT objects using the two-sided transport {transport}. Pass the ref to a method of an "
            "actor, or call ray.get(ref, _use_object_store=True)"
        )
    if process.context is None or not process.context.actor_id:
        raise ValueError(
            f"the tensors of {object_id} use {transport}, which only actors can receive, and this is a task; pass the ref to a "
            "method of an actor"
        )
    return _receive(process, manager, token, source, object_id, meta)


def _receive(
    process: Process, manager: Any, token: ObjectRef[Any], source: bytes, object_id: str, meta: Any
) -> list[Any]:
    """Receive tensors while the source sends them, concurrently with its other calls."""
    from skate.client.object.retrieval import get  # which imports this module

    actor = _actor(process, source)
    own = getattr(manager, "own_communicator", None)
    if own is None:
        communicator_meta = manager.get_communicator_metadata(
            actor, _own_handle(process), manager.tensor_transport_backend()
        )
    else:
        communicator_meta = own(actor, meta, lambda: _ask(process, source, _current_meta, token._id))
    with manager.receiving(communicator_meta) if own is not None else contextlib.nullcontext():
        sent = actor.__ray_call__.options(concurrency_group=SYSTEM_GROUP).remote(
            _send, token._id, communicator_meta
        )
        try:
            request = manager.fetch_multiple_tensors(object_id, meta, communicator_meta)
        except Exception:
            get(sent)  # raises the error of a source that has died, which explains more
            raise
        get(sent)
        return _received(manager.wait_fetch_complete(request), meta)


def _received(tensors: list[Any], meta: Any) -> list[Any]:
    if len(tensors) != len(meta.tensor_meta):
        raise RuntimeError(f"received {len(tensors)} tensors, but {len(meta.tensor_meta)} were sent")
    return tensors


def _target_buffers(object_id: str, meta: Any) -> list[Any] | None:
    wanted = _targets.get(object_id)
    if wanted is None:
        return None
    if isinstance(wanted, str):
        import torch  # a program that names a device has it

        return [torch.empty(shape, dtype=dtype, device=wanted) for shape, dtype in meta.tensor_meta]
    buffers = [each() for each in wanted]
    if any(each is None for each in buffers):
        return None
    check_buffers(buffers, meta.tensor_meta)
    return buffers


def check_buffers(buffers: list[Any], tensor_meta: list[Any]) -> None:
    """Raise ValueError unless the buffers match the shapes and types of the expected tensors."""
    if len(buffers) != len(tensor_meta):
        raise ValueError(
            f"Length of tensor_buffers ({len(buffers)}) does not match length from object metadata ({len(tensor_meta)})."
        )
    for index, (buffer, (shape, dtype)) in enumerate(zip(buffers, tensor_meta, strict=True)):
        for name, has, wants in (("Shape", buffer.shape, shape), ("Dtype", buffer.dtype, dtype)):
            if has != wants:
                raise ValueError(
                    f"{name} of tensor_buffer at index {index} ({has}) does not match {name.lower()} from object metadata "
                    f"({wants})."
                )
        if hasattr(buffer, "is_contiguous") and not buffer.is_contiguous():
            raise ValueError(f"Tensor buffer at index {index} is not contiguous.")


# -- run in the actor that has the tensors


def _stored(token: bytes) -> Any:
    store = existing(session.current())
    kept = None if store is None else store.find(token)
    if kept is None:
        raise RuntimeError(
            f"the tensors of {token.hex()} are lost, because the actor that created them has restarted; create them again"
        )
    return kept


def _send(actor: Any, token: bytes, communicator_meta: Any) -> None:
    kept = _stored(token)
    tensor_transports.manager(kept.transport).send_multiple_tensors(
        kept.tensors, kept.meta, communicator_meta
    )


def _kept_tensors(actor: Any, token: bytes) -> list[Any]:
    tensors: list[Any] = _stored(token).tensors
    return tensors


def _current_meta(actor: Any, token: bytes) -> Any:
    kept = _stored(token)
    manager = tensor_transports.manager(kept.transport)
    return manager.extract_tensor_transport_metadata(kept.object_id, kept.tensors)


def _ask(process: Process, source: bytes, function: Any, token: bytes) -> Any:
    from skate.client.object.retrieval import get  # which imports this module

    call = _actor(process, source).__ray_call__.options(concurrency_group=SYSTEM_GROUP)
    outer = getattr(_thread, "through_store", False)
    _thread.through_store = False
    try:
        return get(call.remote(function, token))
    finally:
        _thread.through_store = outer


def _actor(process: Process, actor_id: bytes) -> ActorHandle:
    """Return a weak handle, for calls outside of the usual order."""
    descriptor = ActorDescriptor("Actor", {}, {}, False, ())
    return ActorHandle(actor_id, descriptor, ActorHold(actor_id, process), weak=True)


def _own_handle(process: Process) -> ActorHandle | None:
    context = process.context
    return None if context is None or not context.actor_id else _actor(process, context.actor_id)


# -- public operations


@contextlib.contextmanager
def through_object_store() -> Iterator[None]:
    """Within this context, read values with copies of their tensors from the object store."""
    outer = getattr(_thread, "through_store", False)
    _thread.through_store = True
    try:
        yield
    finally:
        _thread.through_store = outer


def put(process: Process, value: Any, transport: str) -> ObjectRef[Any]:
    """Put a value whose tensors stay in this process. Raises ValueError for a two-sided transport."""
    if not tensor_transports.manager(transport).is_one_sided():
        raise ValueError(
            f"ray.put() is not supported for two-sided RDT transport {transport!r}. Put the value without a "
            "transport, or return "
            f"it from a method with @ray.method(tensor_transport={transport!r})"
        )
    with process.lock:
        oid = process.next_object_id()
    ref = process.store(seal(process, oid, transport, value), oid)
    context = process.context
    actor_id = b"" if context is None else context.actor_id
    source = _actor(process, actor_id) if actor_id else None
    made_refs.made[ref] = made_refs.MadeRef(source, transport)
    return ref


def set_target(ref: ObjectRef[Any], target: Any) -> None:
    """Set where the tensors of a ref are received: into tensors, or on a device. Raises ValueError for other refs."""
    known = made_refs.made.get(ref)
    if known is None and not _is_sealed(ref):
        raise ValueError(f"Ref {ref} is not an RDT object, because it was created without a tensor transport")
    key = ref.hex()
    if isinstance(target, str):
        kind = target.partition(":")[0]
        if known is not None and kind not in tensor_transports.info(known.transport).devices:
            raise ValueError(
                f"Tensor transport backend {known.transport} does not support fetching onto target device {target}."
            )
        _targets[key] = target
    else:
        _targets[key] = [weakref.ref(each) for each in target]
    weakref.finalize(ref, _targets.pop, key, None)


def _is_sealed(ref: ObjectRef[Any]) -> bool:
    from skate.client.object.retrieval import wait  # which imports this module

    wait([ref])
    return not isinstance(ref._value, bytes) or b"open_sealed" in ref._value
