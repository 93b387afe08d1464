"""The tensor transports: their registration, their implementations, and the checks before calls that use one."""

from __future__ import annotations

import importlib
import threading
import warnings
from typing import Any, NamedTuple

from skate.client.task import option_values
from skate.client.tensor.made_refs import made

#: Ray's transports that leave tensors with the actor that created them. Ray's others use the object store here.
_BUILT_IN = {
    "GLOO": ("cpu", "GLOOTensorTransport"),
    "NCCL": ("cuda", "NCCLTensorTransport"),
}
_MODULE = "skate.experimental.rdt.collective_tensor_transport"


class TransportInfo(NamedTuple):
    """The registration of a transport."""

    manager_class: Any
    devices: tuple[str, ...]
    data_type: Any


#: State of each thread: `argument` is True while it reads the arguments of a call, `through_store` while it fetches tensors
#: through the object store; `tensors` are those of the value that it unpacks.
reading = threading.local()
_lock = threading.Lock()
_custom: dict[str, TransportInfo] = {}
_managers: dict[str, Any] = {}
#: The number of transports registered here that each actor has received, by actor id.
_told: dict[bytes, int] = {}


def register(name: str, devices: Any, manager_class: type, data_type: type) -> None:
    """Register a transport. Raises ValueError for a name that is taken."""
    name = name.upper()
    with _lock:
        if name in option_values.TENSOR_TRANSPORTS:
            raise ValueError(f"Transport {name} already registered. Choose another name for {manager_class}")
        _custom[name] = TransportInfo(manager_class, tuple(devices), data_type)
        option_values.TENSOR_TRANSPORTS.add(name)


def learn(name: str, info: TransportInfo | None) -> None:
    """Register a transport of another process, unless this process has one of that name."""
    if info is not None and name not in _custom:
        with _lock:
            _custom.setdefault(name, info)
            option_values.TENSOR_TRANSPORTS.add(name)


def is_direct(name: str) -> bool:
    """Return True if tensors stay in the process that created them, False if they go into the object store."""
    return name in _custom or name in _BUILT_IN


def custom(name: str) -> TransportInfo | None:
    """Return the registration of a custom transport, or None for a built-in one."""
    return _custom.get(name)


def info(name: str) -> TransportInfo:
    """Return the registration of a transport, custom or built-in."""
    found = _custom.get(name)
    if found is None:
        device, class_name = _BUILT_IN[name]
        manager_class = getattr(importlib.import_module(_MODULE), class_name)
        found = TransportInfo(manager_class, (device,), importlib.import_module("torch").Tensor)
    return found


def manager(name: str) -> Any:
    """Return this process's instance of a transport's class."""
    found = _managers.get(name)
    if found is None:
        made_now = info(name).manager_class()
        with _lock:
            found = _managers.setdefault(name, made_now)
    return found


def _learn_all(actor: Any, infos: dict[str, TransportInfo]) -> None:
    for name, each in infos.items():
        learn(name, each)


def _tell(handle: Any) -> None:
    """Register the transports of this process in an actor."""
    if _custom and _told.get(handle._skate_id) != len(_custom):
        from skate.client.object.retrieval import get  # which imports this module

        count = len(_custom)
        call = handle.__ray_call__.options(concurrency_group="_ray_system")
        get(call.remote(_learn_all, dict(_custom)))
        _told[handle._skate_id] = count


def before_call(handle: Any, name: str, method: str) -> None:
    """Prepare a call of a method with a transport. Raises ValueError if the actor cannot use the transport."""
    if not handle._skate_descriptor.tensors:
        raise ValueError(
            f'Currently, methods with .options(tensor_transport="{name}") are not supported when '
            "enable_tensor_transport=False. Please set @ray.remote(enable_tensor_transport=True) on the actor class definition."
        )
    if not is_direct(name):
        return
    if not manager(name).actor_has_tensor_transport(handle):
        raise ValueError(
            f"{handle!r} does not have tensor transport {name} available, which its method {method} requires. For "
            '"gloo" or "nccl", first create a group with ray.experimental.collective.create_collective_group'
        )
    _tell(handle)


def check_receiver(handle: Any, deps: list[tuple[Any, Any]]) -> None:
    """Raise ValueError if an actor cannot receive the tensors of the refs in its arguments."""
    for _, ref in deps:
        known = made.get(ref)
        if known is None:
            continue
        _tell(handle)
        source = known.source
        if source is None:
            continue
        if source._skate_id != handle._skate_id:
            manager(known.transport).get_communicator_metadata(source, handle, known.transport)
        known.receivers.add(handle._skate_id)
        if source._skate_id in known.receivers and len(known.receivers) > 1 and not known.warned:
            known.warned = True
            warnings.warn(
                f"RDT ObjectRef({ref.hex()}) is passed both to {source!r}, which created it, and to other "
                "actors. The creating actor receives the same tensor object, so the others may see its changes",
                UserWarning,
                stacklevel=3,
            )
