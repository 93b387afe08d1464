"""Workers: what they take back, cancel, count as begun, run side by side and answer."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CORE = "skate.worker.worker_core:WorkerCore."

BUGS = (
    Bug(
        "a worker returns all queued tasks but the last",
        CORE + "take_back",
        "self.push(m.Returned(m.RETURNED, tuple(back)))",
        "self.push(m.Returned(m.RETURNED, tuple(back)[:-1] or tuple(back)))",
    ),
    Bug(
        "a worker returns queued tasks and runs them as well",
        CORE + "take_back",
        "self.queue.clear()",
        "kept.clear()",
    ),
    Bug(
        "a worker returns tasks and keeps the grants of their arguments",
        CORE + "take_back",
        "self.give_up(deps)",
        "pass",
        rare=True,
    ),
    Bug(
        "a queued task is cancelled without an answer",
        CORE + "_dropped",
        "self.push(m.Done(m.DONE, task_id, m.CANCELLED, (), 0, False))",
        "pass",
    ),
    Bug(
        "a cancelled task keeps the grants of its arguments",
        CORE + "_dropped",
        "self.give_up(deps)",
        "pass",
    ),
    Bug(
        "a task is answered as cancelled and runs",
        CORE + "stop_task",
        "self.queue.remove(entry)",
        "pass",
    ),
    Bug(
        "a task that begins is not counted",
        CORE + "begin",
        "STATUS_SLOT.pack_into(self.status, 0, sequence)",
        "pass",
    ),
    Bug(
        "a call beside others that begins is not counted",
        CORE + "admit",
        "self.out_of_turn.begin(sequence)\n    return True",
        "return True",
    ),
    Bug(
        "a call that waited for its group is not counted when it begins",
        CORE + "end",
        "self.out_of_turn.begin(sequence)",
        "pass",
        rare=True,
    ),
    Bug(
        "a group keeps the place of a call that has ended",
        CORE + "end",
        "group.active -= 1",
        "pass",
    ),
    Bug(
        "a call that waits for its group is forgotten",
        CORE + "end",
        "if not group.waiting:",
        "if len(group.waiting) < 2:",
    ),
    Bug(
        "the reader of a stream takes items, and its generator does not notice",
        CORE + "ack",
        "self.acked[task_id] = taken",
        "self.acked.setdefault(task_id, taken)",
    ),
    Bug(
        "an actor that leaves still begins calls",
        CORE + "leave",
        "self.final = self.leaving = True",
        "self.leaving = True",
    ),
)
