"""Error messages for requests that no node of the cluster can ever meet, with advice."""

from __future__ import annotations

from skate.core.resource.resources import UNIT, human_amount, human_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ACCELERATOR_TYPE = "accelerator_type:"


def infeasible_message(
    request: Mapping[str, int], nodes_total: Sequence[Mapping[str, int]], asked_by: str
) -> str:
    """Describe the resources missing for `request` (units), given each node's total resources (units), and what to
    do.

    `asked_by` names the task or actor class that asked.
    """
    shown = {name: units / UNIT for name, units in request.items()}
    head = f"No available node types can fulfill resource request {shown}: "
    missing = [n for n, units in request.items() if all(node.get(n, 0) < units for node in nodes_total)]
    if missing:
        return head + "; ".join(_missing(name, request[name], nodes_total, asked_by) for name in missing)
    parts = ", ".join(_as_option(name, units) for name, units in request.items())
    if not parts:
        return head + f"{asked_by} requests nothing, but this cluster has no nodes"
    return head + (
        f"{parts} requested together by {asked_by}, but no single node has all of it "
        f"({_holdings(nodes_total, request)}); request less, or add a node that has all of it"
    )


def _holdings(nodes: Sequence[Mapping[str, int]], request: Mapping[str, int]) -> str:
    texts = [
        "one has " + ", ".join(_amount_of(name, node.get(name, 0)) for name in request) for node in nodes[:4]
    ]
    if len(nodes) > 4:
        texts.append(f"and {len(nodes) - 4} more")
    return "; ".join(texts)


def _as_option(name: str, units: int) -> str:
    if name == "CPU":
        return f"num_cpus={human_amount(units)}"
    if name == "GPU":
        return f"num_gpus={human_amount(units)}"
    if name == "memory":
        return f"memory={units // UNIT}"
    if name.startswith(_ACCELERATOR_TYPE):
        return f"accelerator_type={name.removeprefix(_ACCELERATOR_TYPE)!r}"
    return f"resources={{{name!r}: {human_amount(units)}}}"


def _amount_of(name: str, units: int) -> str:
    if name == "memory":
        return f"{human_bytes(units // UNIT)} of memory"
    if name in ("CPU", "GPU"):
        return f"{human_amount(units)} {name}{'' if units == UNIT else 's'}"
    return f"{human_amount(units)} of {name!r}"


def _missing(name: str, units: int, nodes: Sequence[Mapping[str, int]], asked_by: str) -> str:
    option = _as_option(name, units)
    if name == "memory":
        option += f" ({human_bytes(units // UNIT)})"
    requested = f"{option} requested by {asked_by}"
    total = sum(node.get(name, 0) for node in nodes)
    largest = max((node.get(name, 0) for node in nodes), default=0)
    if total == 0 and name not in ("CPU", "GPU", "memory"):
        return f"{requested}, but {_nobody_has(name, units, nodes)}"
    have = "no GPU" if name == "GPU" and total == 0 else _amount_of(name, total) + " in all"
    if len(nodes) > 1 and total:
        have += f" (largest node: {_largest(name, largest)})"
    one_node = "; it must fit on one node" if total >= units else ""
    fewer = "request none" if total == 0 else f"request {'fewer' if name in ('CPU', 'GPU') else 'less'}"
    return f"{requested}, but this cluster has {have}{one_node}; {fewer}, or start with {_start(name, units)}"


def _largest(name: str, units: int) -> str:
    return human_bytes(units // UNIT) if name == "memory" else human_amount(units)


def _start(name: str, units: int) -> str:
    if name == "memory":
        return f"init(_memory={units // UNIT})"
    return f"init({_as_option(name, -(-units // UNIT) * UNIT if name in ('CPU', 'GPU') else units)})"


def _nobody_has(name: str, units: int, nodes: Sequence[Mapping[str, int]]) -> str:
    # Importing it takes 4 ms, and only errors need it.
    import difflib

    known = sorted({n for node in nodes for n in node if not n.startswith("node:")})
    if name.startswith(_ACCELERATOR_TYPE):
        types = [n.removeprefix(_ACCELERATOR_TYPE) for n in known if n.startswith(_ACCELERATOR_TYPE)]
        have = f"it has {', '.join(types)}" if types else "it has none of any type"
        return f"no node of this cluster has that accelerator ({have}); request one that it has, or any"
    custom = [n for n in known if n not in ("CPU", "GPU", "memory", "object_store_memory")]
    folded = {n.lower(): n for n in custom}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    hint = f"; did you mean {folded[near[0]]!r}? Otherwise" if near else ";"
    if not near and custom:
        hint = f" (it has {', '.join(map(repr, custom[:10]))});"
    return f"no node of this cluster has any {name!r}{hint} start with init({_as_option(name, units)})"
