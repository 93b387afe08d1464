"""The transports of tensors: which there are, who implements them, and which refs of this process are carried by one."""

from __future__ import annotations

import importlib
import threading
import warnings
from typing import Any, NamedTuple

from skate.client.task import option_values
from skate.client.tensor.made_refs import made

#: Of the names that Ray knows, those whose tensors stay with the actor that made them; the others use the object store.
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


#: Of each thread: `argument` while it reads arguments of a call, `through_store` while tensors are to come by the object
#: store, `tensors` of the value that is being unpacked.
reading = threading.local()
_lock = threading.Lock()
_custom: dict[str, TransportInfo] = {}
_managers: dict[str, Any] = {}
#: Actors that know the transports registered here, and how many of them.
_told: dict[bytes, int] = {}


def register(name: str, devices: Any, manager_class: type, data_type: type) -> None:
    """Add a transport. Raises ValueError for a name that is taken."""
    name = name.upper()
    with _lock:
        if name in option_values.TENSOR_TRANSPORTS:
            raise ValueError(f"Transport {name} already registered. Choose another name for {manager_class}")
        _custom[name] = TransportInfo(manager_class, tuple(devices), data_type)
        option_values.TENSOR_TRANSPORTS.add(name)


def learn(name: str, info: TransportInfo | None) -> None:
    """Add a transport that another process has registered, unless it is known here."""
    if info is not None and name not in _custom:
        with _lock:
            _custom.setdefault(name, info)
            option_values.TENSOR_TRANSPORTS.add(name)


def is_direct(name: str) -> bool:
    """True if tensors stay where they were made, false if they go into the object store."""
    return name in _custom or name in _BUILT_IN


def custom(name: str) -> TransportInfo | None:
    """The registration of a custom transport; None for a built-in one."""
    return _custom.get(name)


def info(name: str) -> TransportInfo:
    """The registration of a transport, custom or built-in."""
    found = _custom.get(name)
    if found is None:
        device, class_name = _BUILT_IN[name]
        manager_class = getattr(importlib.import_module(_MODULE), class_name)
        found = TransportInfo(manager_class, (device,), importlib.import_module("torch").Tensor)
    return found


def manager(name: str) -> Any:
    """The one instance of a transport's class in this process."""
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
    """Have an actor know the transports that were registered here."""
    if _custom and _told.get(handle._skate_id) != len(_custom):
        from skate.client.object.retrieval import get  # which imports this module

        count = len(_custom)
        call = handle.__ray_call__.options(concurrency_group="_ray_system")
        get(call.remote(_learn_all, dict(_custom)))
        _told[handle._skate_id] = count


def before_call(handle: Any, name: str, method: str) -> None:
    """A method is about to be called whose tensors travel by a transport. Raises ValueError if they cannot."""
    if not handle._skate_descriptor.tensors:
        raise ValueError(
            f'Currently, methods with .options(tensor_transport="{name}") are not supported when '
            "enable_tensor_transport=False. Please set @ray.remote(enable_tensor_transport=True) on the actor class definition."
        )
    if not is_direct(name):
        return
    if not manager(name).actor_has_tensor_transport(handle):
        raise ValueError(
            f"{handle!r} does not have tensor transport {name} available, which its method {method} names. If it is one of "
            '"gloo" and "nccl", first create a group with ray.experimental.collective.create_collective_group'
        )
    _tell(handle)


def check_receiver(handle: Any, deps: list[tuple[Any, Any]]) -> None:
    """Raise ValueError if an actor cannot receive the tensors of a ref to be passed to it."""
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
                f"RDT ObjectRef({ref.hex()}) goes back to {source!r}, which made it, and to other actors as "
                "well. The creating actor gets the very same tensor, so the others may see what it writes",
                UserWarning,
                stacklevel=3,
            )
