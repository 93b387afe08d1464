"""The attempts at tasks by name, kind and state since the start of the node, from numbers that are kept: as many as rows of kind
"tasks" while the history remembers all of them, and without making a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.schedule.worker_history import NAMES_MAX, OTHER_NAMES
from skate.core.state import task_counts
from skate.core.state.inventory import Rows, names_of
from skate.core.task.task import Template
from skate.protocol.fields import Where
from skate.protocol.states import CREATION, METHOD, PLAIN, TaskKind

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables


class AttemptCounts:
    """Makes the rows of kind "attempts"."""

    def __init__(self, tables: NodeTables) -> None:
        self._tables = tables
        #: The ended attempts at tasks of functions that have been dropped, by name, kind and state.
        self._ended: dict[tuple[str, TaskKind, str], int] = {}

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row for each name, kind and state."""
        found = dict(self._ended)
        for template in self._tables.functions.templates.values():
            _add_ended(found, template)
        for (template, state, _), number in task_counts.count(self._tables).items():
            _add(found, template, state, number)
        for (name, kind, state), number in found.items():
            yield {"name": name, "kind": kind, "state": state, "number": number}

    def keep(self, template: Template) -> None:
        """Keep the numbers of a function that is dropped."""
        _add_ended(self._ended, template)


def _kind_of(template: Template) -> TaskKind:
    if template.constructs:
        return CREATION
    return PLAIN if template.function else METHOD  # a method is part of its class


def _add_ended(found: dict[tuple[str, TaskKind, str], int], template: Template) -> None:
    _add(found, template, "FINISHED", template.finished + template.made_again)
    _add(found, template, "FAILED", template.failed + template.tried_again)


def _add(found: dict[tuple[str, TaskKind, str], int], template: Template, state: str, number: int) -> None:
    if not number:
        return
    kind = _kind_of(template)
    key = (names_of(kind, template)[0], kind, state)
    if key not in found and len(found) >= NAMES_MAX:
        key = (OTHER_NAMES, kind, state)
    found[key] = found.get(key, 0) + number
