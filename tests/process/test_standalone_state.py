"""Questions about the state of a standing node, from several drivers and from workers."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from tests.process.programs import Program
from tests.process.standing import Node

ASKS = """\
from __future__ import annotations
import os
import skate as ray
from skate.util import state
from skate.util.state.exception import RayStateApiException
from waiting import wait_for

ray.init(address="auto", log_to_driver=False)

@ray.remote
def say(text):
    print(text, flush=True)
    return os.getpid()

def text(pid, **how):
    try:
        return "".join(state.get_log(pid=pid, **how))
    except RayStateApiException:
        return ""

@ray.remote
def ask(pid):
    return text(pid, tail=1), state.list_logs(glob_filter=f"*{pid}.out")

pid = ray.get(say.remote("hello from a worker"))
wait_for(lambda: "hello from a worker" in text(pid), what="the line")
assert f"worker-{pid}.out" in state.list_logs()["worker_out"], state.list_logs()
node_id = ray.get_runtime_context().get_node_id()
assert "hello" in text(pid, node_id=node_id)
last, names = ray.get(ask.remote(pid))
assert last == "hello from a worker\\n" and names == {"worker_out": [f"worker-{pid}.out"]}, (last, names)

group = ray.util.placement_group([{"CPU": 1}], name="mine", lifetime="detached")
ray.get(group.ready())
job = ray.get_runtime_context().get_job_id()
print("created", job, flush=True)
"""

SEES = """\
import skate as ray
from skate.util import state

ray.init(address="auto")
(group,) = state.list_placement_groups(detail=True)
print("group", group.name, group.creator_job_id, group.is_detached, flush=True)
"""


def test_output_and_creators_are_seen_by_everybody(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    first = program(ASKS, **node.environment)
    assert first.end() == 0, first.story()
    job = first.wait_for_output(r"^created .*").split()[1]
    second = program(SEES, **node.environment)
    assert second.end() == 0, second.story()
    assert second.wait_for_output(r"^group .*").split()[1:] == ["mine", job, "True"]
    node.stop()
    node.gone()


ENDS = """\
import os
import skate as ray

ray.init(address="auto")
print(os.getpid(), flush=True)
"""

LOSES = "import signal; os.kill(os.getpid(), signal.SIGKILL)"

LISTS = """\
import json
import os
import skate as ray
from skate.util import state
from waiting import wait_for

ray.init(address="auto")

def others():
    drivers = state.list_workers(detail=True, filters=[("worker_type", "=", "DRIVER")])
    return {row.pid: (row.is_alive, row.exit_type) for row in drivers if row.pid != os.getpid()}

wait_for(lambda: not any(alive for alive, _ in others().values()), what="the ends of two drivers")
print(json.dumps(others()), flush=True)
"""


def test_drivers_that_have_ended_are_listed(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    left, lost = program(ENDS, **node.environment), program(ENDS + LOSES, **node.environment)
    assert (left.end(), lost.end()) == (0, -signal.SIGKILL), left.story() + lost.story()
    third = program(LISTS, **node.environment)
    assert third.end() == 0, third.story()
    ended = {int(left.out): "INTENDED_USER_EXIT", int(lost.out): "SYSTEM_ERROR"}
    assert json.loads(third.out) == {str(pid): [False, how] for pid, how in ended.items()}
    node.stop()
    node.gone()
