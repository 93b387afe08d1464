"""Registration of functions and templates at the node. A key is a hash: of a function's bytes, of a template's fields."""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from skate.client.digest import blake2b
from skate.client.task.options import placement_of, placement_request, resource_request
from skate.core.resource.resources import UNIT, fits, format_request
from skate.protocol import messages as m
from skate.protocol.fields import TemplateFields
from skate.protocol.strategies import (
    ANY_BUNDLE,
    SPREAD,
    BundleStrategy,
    LabelStrategy,
    NodeStrategy,
    Strategy,
)
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

#: Maximum size of a pickled definition. Larger values belong in objects.
FUNCTION_BYTES_MAX = 95 * 1024 * 1024
#: Unused registrations to keep, because programs often create the same function again.
UNUSED_MAX = 256


def pack_definition(definition: Any, name: str) -> tuple[bytes, list[Any], bytes]:
    """Pickle a function or class by value; return its bytes, the refs in it, and the key of the bytes."""
    is_actor = isinstance(definition, type)
    try:
        blob, met = values.pack_function(definition)
    except Exception as error:  # whatever pickling raises, the cause is in the definition
        from skate.wire.culprit import explain

        raise TypeError(
            f"Could not serialize the {'actor class' if is_actor else 'function'} {name}, so it cannot be sent to a worker: "
            f"{explain(definition, name)}\n({type(error).__name__}: {error})"
        ) from error
    if len(blob) > FUNCTION_BYTES_MAX:
        what = f"actor {definition.__name__}" if is_actor else f"remote function {name}"
        raise ValueError(
            f"The {what} is too large: it captures {len(blob) / 2**20:.0f} MiB, more than "
            f"{FUNCTION_BYTES_MAX // 2**20} MiB; put large values with ray.put() and pass the refs as arguments"
        )
    return blob, met, key_of(blob, stamp_of(definition))


def key_of(*parts: bytes) -> bytes:
    """Return a hash of some bytes."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def stamp_of(definition: Any) -> bytes:
    """Return the identity of a definition's source file, so that an edited module is sent again."""
    module = sys.modules.get(getattr(definition, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if not path or getattr(module, "__name__", "") == "__main__" or "site-packages" in path:
        return b""
    try:
        status = os.stat(path)
    except OSError:
        return b""
    return f"{path}:{status.st_mtime_ns}:{status.st_size}".encode()


class Export:
    """A registration at the node. It lives as long as this process may refer to it."""

    __slots__ = ("key", "function", "_unused", "__weakref__")

    def __init__(self, key: bytes, function: Export | None, unused: deque[bytes]) -> None:
        self.key = key
        self.function = function
        self._unused = unused

    def __del__(self) -> None:
        self._unused.append(self.key)


def own_key(process: Process, key: bytes) -> bytes:
    """Return the key of a definition at the node. Each program of a standing node has its own keys."""
    return key_of(key, process.realm.encode()) if process.realm else key


def export_function(process: Process, blob: bytes, met: list[Any], key: bytes) -> Export:
    """Register a definition at the node, once. The lock is held."""
    key = own_key(process, key)
    if key not in process.exported:
        held = tuple(process.escape(each) for each in met)
        process.send(m.Function(m.FUNCTION, key, blob, held))
    return _export(process, key, None)


def export_template(process: Process, fields: TemplateFields, function: Export | None = None) -> Export:
    """Register a function with its options at the node, so that calls need only the key. The lock is held."""
    if process.realm:
        fields = {**fields, "job": process.realm}
    key = key_of(repr(sorted(fields.items(), key=lambda item: item[0])).encode())
    if key not in process.exported:
        process.send(m.Template(m.TEMPLATE, key, fields))
    return _export(process, key, function)


def _export(process: Process, key: bytes, function: Export | None) -> Export:
    weak = process.exported.get(key)
    found = weak() if weak is not None else None
    if found is None:
        found = Export(key, function, process.unused)
        process.exported[key] = weakref.ref(found)
    if len(process.unused) > UNUSED_MAX:
        _forget(process)
    return found


def _forget(process: Process) -> None:
    """Unregister templates and functions that this process no longer refers to."""
    gone = []
    for _ in range(len(process.unused)):
        key = process.unused.popleft()
        weak = process.exported.get(key)
        if weak is not None and weak() is None:
            del process.exported[key]
            gone.append(key)
    process.send(m.Forget(m.FORGET, tuple(gone)))


def common_fields(
    process: Process, options: dict[str, Any], name: str, function: bytes, kind: str
) -> TemplateFields:
    """Return the fields that tasks and actors share: resources, strategy, environment."""
    short = name.rpartition("<locals>.")[2]
    fields: TemplateFields = {
        "name": (options.get("name") if kind == "task" else None) or short,
        "qualified": short,
        "function": own_key(process, function),
        "request": resource_request(options, kind=kind),
        "strategy": strategy_of(process, options, kind, name),
    }
    if kind == "actor":
        # As in Ray, actors are listed with the scope that defines their class, but calls are not.
        fields["class_path"] = name
        fields["placement"] = placement_request(options)
    environment = environment_of(process, options.get("runtime_env"), f"{kind} {name}")
    if environment is not None:
        fields["environment"], fields["env_key"] = environment
    return fields


def _check_no_index(index: int) -> None:
    if index != -1:
        raise ValueError(
            f"If placement group is not set, the value of bundle index must be -1, got {index}; pass the group as well"
        )


def strategy_of(process: Process, options: dict[str, Any], kind: str, name: str) -> Strategy | None:
    """Return the scheduling strategy as the node reads it, or None for the default."""
    placed = placement_of(options)
    context = process.context
    if placed is None:
        strategy = options.get("scheduling_strategy")
        if strategy is None and context is not None and context.captured_group is not None:
            index = options.get("placement_group_bundle_index", ANY_BUNDLE)
            return BundleStrategy("bundle", context.captured_group, index, True)
        _check_no_index(options.get("placement_group_bundle_index", -1))
    else:
        group, index, capture = placed
        if group is None:
            _check_no_index(index)
            return None
        if not hasattr(group, "is_empty"):
            raise TypeError(
                f"placement_group={group!r:.80} must be a PlacementGroup (from placement_group()) or None"
            )
        if group.is_empty:
            _check_no_index(index)
            return None
        if index >= group.bundle_count:
            raise ValueError(
                f"placement group bundle index {index} is invalid: placement_group_bundle_index={index}, but the group has "
                f"{group.bundle_count} bundles: valid are -1 (any) and 0 to {group.bundle_count - 1}"
            )
        _check_fits(group, index, options, kind, name)
        return BundleStrategy("bundle", group.id.binary(), index, bool(capture))
    where = type(strategy).__name__
    asked: Any = strategy
    if strategy == "SPREAD":
        return SPREAD
    if where == "NodeAffinitySchedulingStrategy":
        node = asked.node_id
        node = bytes.fromhex(node) if isinstance(node, str) else node
        fails = getattr(asked, "_fail_on_unavailable", False)
        spills = getattr(asked, "_spill_on_unavailable", False)
        return NodeStrategy(
            "node", node, bool(asked.soft), "fail" if fails else "spill" if spills else "wait"
        )
    if where == "NodeLabelSchedulingStrategy":
        return LabelStrategy("labels", _label_conditions(asked.hard), _label_conditions(asked.soft))
    selector = options.get("label_selector")
    if selector:
        wanted = selector_conditions(selector)
        others = [
            selector_conditions(each["label_selector"] or {})
            for each in options.get("fallback_strategy") or ()
        ]
        if others:  # a node may match any of them; the first is preferred
            return LabelStrategy("labels", (("", "any", (wanted, *others)),), wanted)
        return LabelStrategy("labels", wanted, ())
    return None


def _check_fits(group: Any, index: int, options: dict[str, Any], kind: str, name: str) -> None:
    """Raise ValueError if no bundle of the group could ever hold the task or actor."""
    request = resource_request(options, kind=kind)
    if kind == "actor":
        request = {**placement_request(options), **request}
    bundles = group.bundle_specs if index < 0 else group.bundle_specs[index : index + 1]
    held = [{key: amount * UNIT for key, amount in bundle.items()} for bundle in bundles]
    if any(fits(request, each) for each in held):
        return
    wanted = {key: units // UNIT if units % UNIT == 0 else units / UNIT for key, units in request.items()}
    which = "" if index < 0 else f" The call requests bundle {index} of them."
    raise ValueError(
        f"Cannot schedule {name} with the placement group because the resource request {wanted} cannot fit into any bundles "
        f"for the placement group, {bundles}.{which} Request less than {format_request(request)}, or create the group with a "
        "larger bundle"
    )


def _label_conditions(expressions: Any) -> tuple[Any, ...]:
    words = {"In": "in", "NotIn": "not_in", "Exists": "exists", "DoesNotExist": "absent"}
    found = []
    for each in expressions or ():
        found.append(
            (each.key, words[type(each.operator).__name__], tuple(getattr(each.operator, "values", ())))
        )
    return tuple(found)


def selector_conditions(selector: dict[str, str]) -> tuple[Any, ...]:
    """Return a label selector as the node reads it: a tuple of (key, operator, values), all of which must hold."""
    found = []
    for key, text in selector.items():
        text = text.strip()
        negative = text.startswith("!")
        body = text.lstrip("!").strip()
        if body.startswith("in(") and body.endswith(")"):
            choices = tuple(part.strip() for part in body[3:-1].split(","))
        else:
            choices = (body,)
        found.append((key, "not_in" if negative else "in", choices))
    return tuple(found)


def environment_of(process: Process, given: Any, where: str) -> tuple[str, str] | None:
    """Return the runtime environment of a task, merged with the job's, as (JSON, key); None if there is none."""
    job = process.job_environment if process.context is None else process.context.environment()
    if not given and not job:
        return None
    import json  # imported only by programs with runtime environments

    from skate.runtime_env import prepare
    from skate.runtime_env.identity import env_key

    own = prepare.validate(given, where=where) if given else {}
    whole = prepare.merge(job or {}, own)
    if not whole:
        return None
    whole = _shared(process, whole)
    return json.dumps(whole), env_key(whole)


def share_job_environment(process: Process) -> None:
    """Make the environment of a driver's job valid on all machines of its cluster, if there are several.

    Raises RuntimeEnvSetupError for a folder that is too large or cannot be read.
    """
    if process.job_environment:
        process.job_environment = _shared(process, process.job_environment)


def _shared(process: Process, env: dict[str, Any]) -> dict[str, Any]:
    if not process.packages:
        return env
    from skate.runtime_env import prepare  # imported already, to validate it

    return prepare.share(env, process.packages)
