"""The end of a standalone node's driver: what ends with it, and what outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.process.standing import Node
from tests.process.test_standalone import JOIN, KEEPER

EVERYTHING = (
    "    import os, time\n    ray.init('auto', namespace='shop')"
    + KEEPER
    + """
    @ray.remote
    class Manager:
        def __init__(self):
            self.helper = Keeper.remote()

        def add(self):
            return ray.get(self.helper.add.remote())

    @ray.remote(num_cpus=1)
    def spin():
        time.sleep(1000)

    plain = Keeper.options(name="plain").remote()
    manager = Manager.options(name="manager", lifetime="detached").remote()
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    running = spin.remote()
    waiting = [spin.remote() for _ in range(5)]
    value = ray.put(bytes(10_000_000))
    print(ray.get([plain.add.remote(), manager.add.remote()]), flush=True)
    print("up", flush=True)
    FINISH
    """
)
OWNS_A_GROUP = """
    import skate as ray
    ray.init("auto", namespace="shop")

    @ray.remote(num_cpus=0)
    class Owner:
        def reserve(self):
            self.group = ray.util.placement_group([{"CPU": 1}])
            ray.get(self.group.ready())

    owner = Owner.options(name="owner", lifetime="detached").remote()
    ray.get(owner.reserve.remote())
    """
SERVICE = """
    import os, time
    import skate as ray
    ray.init("auto", namespace="shop")

    @ray.remote
    class Service:
        def __init__(self, config):
            self.config = config

        def look(self):
            import rules
            return rules.who(), self.config, os.environ["COLOUR"], os.getcwd(), ray.get_runtime_context().namespace

        def nested(self):
            @ray.remote
            def inner():
                import rules
                return rules.who()
            return ray.get(inner.remote())

        def pid(self):
            return os.getpid()

    config = ray.put({"depth": 3})
    service = Service.options(name="service", lifetime="detached", max_restarts=2).remote(config)
    print("up", ray.get(service.pid.remote()), flush=True)
    time.sleep(60)
    """


def of_program(node: Node, driver: Program) -> bool:
    """Return True if a program is among the node's drivers."""
    return any(each["pid"] == driver.process.pid for each in node.status()["drivers"])


@pytest.mark.parametrize("ending", ["returns", "shutdown", "SIGKILL"])
def test_what_ends_with_a_driver_and_what_stays(
    ending: str, node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    node.start()
    finish = {"returns": "", "shutdown": "ray.shutdown(); time.sleep(60)", "SIGKILL": "time.sleep(60)"}[
        ending
    ]
    driver = program(
        EVERYTHING.replace("FINISH", finish),
        **node.environment,
    )
    driver.wait_for_output("^up")
    if ending == "SIGKILL":
        wait_for(lambda: node.status()["pending"], 10, "queued tasks")
        os.kill(driver.process.pid, signal.SIGKILL)
    wait_for(lambda: not of_program(node, driver), 20, "the end of the driver as the node sees it")
    wait_for(lambda: node.status()["workers"] == 2, 5, f"the end of its workers; {node.status()}")
    status = node.status()
    assert {each["class_name"] for each in status["actors"]} == {"Manager", "Keeper"}
    assert {each["name"] for each in status["actors"]} == {"manager", ""}
    assert not status["pending"] and status["memory_used"] == 0
    assert status["free"]["CPU"] == status["total"]["CPU"]
    assert not [name for name in status["free"] if "_group_" in name]
    ended = run(
        JOIN
        + """
    manager = ray.get_actor("manager", namespace="shop")
    print(ray.get(manager.add.remote()))
    ray.kill(manager)
    """,
        **node.environment,
    )
    assert ended.lines == ["2"]
    wait_for(lambda: not node.status()["actors"], 5, f"the end of the rest; {node.actors()}")
    driver.process.kill()
    driver.gone()
    assert list(node.processes()) == [node.pid]


def test_detached_actor_restarts_after_its_driver_was_killed(
    node: Node, program: Callable[..., Program], run: Callable[..., Program], tmp_path: Path
) -> None:
    """A restarted actor has the modules, the directory and the variables of the driver that created it."""
    node.start()
    folder = tmp_path / "maker"
    folder.mkdir()
    (folder / "rules.py").write_text("def who():\n    return 'made by the first'\n")
    driver = program(
        SERVICE,
        folder=folder,
        COLOUR="red",
        **node.environment,
    )
    pid = int(driver.wait_for_output(r"^up \d+").split()[1])
    os.kill(driver.process.pid, signal.SIGKILL)
    wait_for(lambda: not of_program(node, driver), 20, "the end of the driver as the node sees it")
    os.kill(pid, signal.SIGKILL)
    ended = run(
        JOIN
        + f"""
    service = ray.get_actor("service", namespace="shop")
    while True:
        try:
            pid = ray.get(service.pid.remote())
        except ray.exceptions.ActorUnavailableError:
            continue
        break
    assert pid != {pid}
    print(ray.get(service.look.remote()))
    print(ray.get(service.nested.remote()))
    """,
        COLOUR="blue",
        **node.environment,
    )
    assert ended.lines == [
        str(("made by the first", {"depth": 3}, "red", str(folder), "shop")),
        "made by the first",
    ]
    node.stop()
    driver.gone()


def test_forked_child_that_outlives_its_driver_keeps_nothing(
    node: Node, program: Callable[..., Program]
) -> None:
    node.start()
    driver = program(
        JOIN
        + KEEPER
        + """
    keeper = Keeper.remote()
    ray.get(keeper.add.remote())
    import ctypes
    if not ctypes.CDLL(None).fork():  # not seen by Python, so that the child keeps the socket
        ctypes.CDLL(None).sleep(60)
        ctypes.CDLL(None)._exit(0)
    print("forked", flush=True)
    os._exit(0)
    """,
        **node.environment,
    )
    driver.wait_for_output("^forked")
    wait_for(lambda: not node.status()["drivers"] and not node.status()["actors"], 10, "the end of the job")


def test_many_drivers_come_and_go(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    text = (
        JOIN
        + """
    @ray.remote
    def double(x):
        return 2 * x

    print(sum(ray.get([double.remote(i) for i in range(200)])))
    """
    )
    for _ in range(2):
        drivers = [program(text, **node.environment) for _ in range(5)]
        for driver in drivers:
            assert driver.end() == 0, driver.story()
            assert driver.lines == ["39800"]
            driver.gone()
    wait_for(lambda: node.status()["workers"] == 0, 5, "the end of all workers")
    wait_for(lambda: list(node.processes()) == [node.pid], 5, "the end of all zygotes")


def test_the_group_of_a_detached_actor_goes_with_it(
    node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    node.start()
    driver = program(OWNS_A_GROUP, **node.environment)
    assert driver.end() == 0
    wait_for(lambda: not of_program(node, driver), 20, "the end of the driver as the node sees it")
    assert [name for name in node.status()["free"] if "_group_" in name], "it outlives the driver"
    run(JOIN + "    ray.kill(ray.get_actor('owner', namespace='shop'))\n", **node.environment)

    def left() -> list[str]:
        return [name for name in node.status()["free"] if "_group_" in name]

    wait_for(lambda: not left(), 20, f"the end of the group; {node.status()}")
    status = node.status()
    assert status["free"]["CPU"] == status["total"]["CPU"]
