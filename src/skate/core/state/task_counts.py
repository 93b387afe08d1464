"""The tasks in progress by function and state, from numbers that are kept as tasks come and go.

Counting them takes as long for a million queued tasks as for none: it reads some numbers of each function, the workers with the
short tasks that they have, the actors, and the tasks at a later attempt than their first. A walk over all tasks finds the same
(`recount`), which tests and the simulator check after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from skate.core.state.inventory import task_state
from skate.protocol.states import CREATION, METHOD, PLAIN

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables
    from skate.core.task.task import Task, Template

UNREADY = "PENDING_ARGS_AVAIL"
LINED = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
QUEUED = "PENDING_NODE_ASSIGNMENT"
SENT = "SUBMITTED_TO_WORKER"
RUNNING = "RUNNING"

#: Numbers of tasks by function, state, and True for those at a later attempt than their first.
TaskCounts: TypeAlias = "dict[tuple[Template, str, bool], int]"
Add: TypeAlias = "Callable[[Template, str, int], None]"


def count(tables: NodeTables) -> TaskCounts:
    """Count the tasks in progress. Those that another node has are counted there."""
    found: TaskCounts = {}

    def add(template: Template, state: str, number: int) -> None:
        key = (template, state, False)
        found[key] = found.get(key, 0) + number

    for template in tables.functions.templates.values():
        if template.live and not template.constructs:
            _of_template(template, add)
    for worker in tables.scheduler.workers.values():
        actor = worker.actor
        if actor is None:
            _of_worker(list(worker.outstanding.values()), add)
            continue
        if actor.in_order:  # it runs the first of its calls
            for task in worker.outstanding.values():
                _move(task, SENT, RUNNING, add)
                break
        for task_id in worker.blocked:
            blocked = worker.outstanding.get(task_id)
            if blocked is not None:
                first = next(iter(worker.outstanding)) == task_id
                _move(blocked, RUNNING if first or not actor.in_order else SENT, task_state(blocked), add)
    for task in _constructors(tables):
        add(task.template, task_state(task), 1)
    for task in [*tables.retried.values(), *_constructors(tables)]:
        if task.attempt and task.node is None:
            template, state = task.template, task_state(task)
            add(template, state, -1)
            found[template, state, True] = found.get((template, state, True), 0) + 1
    return {key: number for key, number in found.items() if number}


def _of_template(template: Template, add: Add) -> None:
    """Count the tasks of a function as if its workers had none, and those at actors by what all actors of a kind do."""
    rest = template.live - template.away
    if template.lined or template.called:
        add(template, UNREADY, template.unready)
        add(template, LINED, template.lined - template.unready)
        add(template, SENT, template.called - template.at_once)
        add(template, RUNNING, template.at_once)
        rest -= template.lined + template.called
    else:
        add(template, UNREADY, template.unready)
        rest -= template.unready
    add(template, QUEUED, rest)


def _of_worker(tasks: list[Task], add: Add) -> None:
    """Count the tasks that a worker has, which its functions count as queued."""
    for task in tasks:
        if task.kind == PLAIN:
            _move(task, QUEUED, task_state(task), add)


def _move(task: Task, before: str, now: str, add: Add) -> None:
    if task.kind != CREATION:
        add(task.template, before, -1)
        add(task.template, now, 1)


def _constructors(tables: NodeTables) -> list[Task]:
    """Return the tasks in progress here that construct actors."""
    tasks = tables.tasks
    return [
        actor.creation
        for actor_id, actor in tables.actors.actors.items()
        if actor.creation.node is None and tasks.get(actor_id) is actor.creation
    ]


def recount(tables: NodeTables) -> TaskCounts:
    """Count the same by a walk over all tasks."""
    found: TaskCounts = {}
    for task in tables.tasks.values():
        if task.node is None:
            key = (task.template, task_state(task), task.attempt > 0)
            found[key] = found.get(key, 0) + 1
    return found


def check(tables: NodeTables) -> None:
    """Raise AssertionError if the numbers are not those of a walk over all tasks."""
    kept, walked = count(tables), recount(tables)
    assert kept == walked, f"tasks are counted as {kept}, but a walk finds {walked}"
    for template in tables.functions.templates.values():
        if template.constructs:
            continue
        numbers = (template.live, template.unready, template.lined, template.called, template.away)
        assert min(numbers) >= 0, f"{template} counts {numbers}"
    for task in tables.retried.values():
        assert tables.tasks.get(task.task_id) is task, f"{task} has ended, but counts as retried"
    calls = sum(task.kind == METHOD and task.node is not None for task in tables.tasks.values())
    away = sum(t.away for t in tables.functions.templates.values())
    plain = sum(task.kind == PLAIN and task.node is not None for task in tables.tasks.values())
    assert away == calls + plain, f"{away} tasks are counted at other nodes, but {calls + plain} are there"
