"""LoggingConfig in driver, tasks and actors, and Ray's environment variables about output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.process.programs import Program

LOGS = """\
import logging
import skate as ray

CONFIG
logging.getLogger("app").info("in the driver")

@ray.remote
def task():
    logging.getLogger("app").debug("left out")
    logging.getLogger("app").info("in a task", extra={"order": 7})
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("ray.part").exception("failed")
    return ray.get_runtime_context().get_task_id()

@ray.remote
class Actor:
    def go(self):
        logging.getLogger("app").warning("in an actor")

task_id = ray.get(task.remote())
actor = Actor.options(name="named").remote()
ray.get(actor.go.remote())
print("done", task_id, flush=True)
ray.shutdown()
"""


def lines_of(said: str) -> list[dict[str, object]]:
    return [json.loads(line[line.index("{") :]) for line in said.splitlines() if "{" in line]


def test_json_lines(run: Callable[..., Program]) -> None:
    config = 'ray.init(START, logging_config=ray.LoggingConfig(encoding="JSON", additional_log_standard_attrs=["name"]))'
    ended = run(LOGS.replace("CONFIG", config))
    task_id = ended.wait_for_output(r"^done .*").split()[1]
    found = {str(row["message"]): row for row in lines_of(ended.err)}
    assert set(found) == {"in the driver", "in a task", "failed", "in an actor"}, ended.story()
    driver, task, failed, actor = (
        found[each] for each in ("in the driver", "in a task", "failed", "in an actor")
    )
    assert "task_id" not in driver and driver["name"] == "app" and driver["levelname"] == "INFO"
    assert (task["task_id"], task["task_name"], task["order"]) == (task_id, "task", 7)
    assert str(task["task_func_name"]).endswith(".task") and type(task["timestamp_ns"]) is int
    assert "ZeroDivisionError" in str(failed["exc_text"]) and failed["name"] == "ray.part"
    assert actor["actor_name"] == "named" and actor["actor_id"] and actor["job_id"] == task["job_id"]
    assert task["node_id"] == actor["node_id"] and task["worker_id"] != driver.get("worker_id")


def test_text_lines_by_a_level(run: Callable[..., Program]) -> None:
    config = 'ray.init(START, logging_config=ray.LoggingConfig(log_level="WARNING"))'
    ended = run(LOGS.replace("CONFIG", config))
    assert "in a task" not in ended.err and "in the driver" not in ended.err
    line = next(line for line in ended.err.splitlines() if "in an actor" in line)
    assert re.search(r"WARNING \S+:\d+ -- in an actor .*actor_name=named timestamp_ns=\d+$", line), line


def test_the_environment_asks_for_json(run: Callable[..., Program]) -> None:
    ended = run(LOGS.replace("CONFIG", "ray.init(START)"), RAY_LOGGING_CONFIG_ENCODING="JSON")
    assert {"in the driver", "in a task"} <= {str(row["message"]) for row in lines_of(ended.err)}


def test_the_environment_silences_workers(run: Callable[..., Program]) -> None:
    text = (
        "import skate as ray\nray.init(START)\nray.get(ray.remote(print).remote('not shown'))\nray.shutdown()"
    )
    ended = run(text, RAY_LOG_TO_DRIVER="0")
    assert "not shown" not in ended.out + ended.err
