"""Several drivers on one standing node: they are isolated, and the resources of each end with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.process.standing import Node
from tests.process.test_standalone import JOIN, KEEPER


def test_workers_belong_to_one_driver_each(
    node: Node, program: Callable[..., Program], tmp_path: Path
) -> None:
    """Modules of the same name, directories, variables, paths and __main__ do not mix."""
    node.start()
    text = """\
    from __future__ import annotations
    import os, sys, time
    import skate as ray
    import rules

    ray.init(address="auto")

    def here():
        return "NAME"

    @ray.remote
    def look():
        return rules.WHO, rules.who(), here(), os.getcwd(), os.environ["COLOUR"], rules.__file__, os.getpid()

    @ray.remote
    class Looker:
        def look(self):
            return ray.get(look.remote()), rules.who(), os.getcwd(), os.environ["COLOUR"]

    sys.stdin.readline()
    pids = set()
    for _ in range(20):
        found = ray.get(look.remote())
        assert found[:3] == ("NAME", "NAME", "NAME"), found
        assert found[3] == os.getcwd() and found[4] == "NAME" and found[5].startswith(os.getcwd()), found
        pids.add(found[-1])
    inner, who, cwd, colour = ray.get(Looker.remote().look.remote())
    assert inner[:3] == ("NAME",) * 3 and (who, cwd, colour) == ("NAME", os.getcwd(), "NAME"), (inner, who)
    print("pids", *pids, flush=True)
    print("job", ray.get_runtime_context().get_job_id(), ray.get_runtime_context().namespace, flush=True)
    sys.stdin.readline()
    """
    drivers = []
    for name in ("red", "blue"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rules.py").write_text(f"WHO = {name!r}\n\ndef who():\n    return {name!r}\n")
        drivers.append(program(text.replace("NAME", name), folder=folder, COLOUR=name, **node.environment))
    for driver in drivers:
        driver.write_line("go")
    pids = [set(driver.wait_for_output(r"^pids .*").split()[1:]) for driver in drivers]
    assert not pids[0] & pids[1]
    jobs = [driver.wait_for_output(r"^job .*").split()[1:] for driver in drivers]
    assert jobs[0][0] != jobs[1][0] and jobs[0][1] != jobs[1][1]
    for driver in drivers:
        driver.write_line("end")
        assert driver.end() == 0, driver.story()
        driver.gone()


def test_runtime_environment_of_one_driver_only(
    node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    node.start()
    text = """
    import os
    ray.init(address="auto"ENV)
    print(ray.get(ray.remote(lambda: os.environ.get("FLAVOUR")).remote()))
    """
    with_one = ", runtime_env={'env_vars': {'FLAVOUR': 'mint'}}"
    assert run(text.replace("ENV", with_one), **node.environment).lines == ["mint"]
    assert run(text.replace("ENV", ""), **node.environment).lines == ["None"]


def test_named_actors_are_seen_in_their_namespace(
    node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    node.start()
    first = program(
        "    import os, time\n    ray.init('auto', namespace='shop')"
        + KEEPER
        + """
    keeper = Keeper.options(name="till").remote()
    print(ray.get(keeper.add.remote()), flush=True)
    time.sleep(60)
    """,
        **node.environment,
    )
    first.wait_for_output("^1")
    ended = run(
        JOIN
        + """
    try:
        ray.get_actor("till")
    except ValueError as error:
        print("not here", "shop" in str(error))
    keeper = ray.get_actor("till", namespace="shop")
    print([ray.get(keeper.add.remote()) for _ in range(3)])
    """,
        **node.environment,
    )
    assert ended.lines == ["not here True", "[2, 3, 4]"]


def test_output_goes_to_the_driver_whose_it_is_and_then_to_a_file(
    node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    node.start()
    text = """
    import sys, time
    ray.init("auto", namespace="shop")

    @ray.remote
    class Speaker:
        def say(self, text):
            print(text)
            print("error", text, file=sys.stderr)

    speaker = Speaker.options(name="WHO", lifetime="detached").remote()
    ray.get(speaker.say.remote("WHO speaks"))
    print("up", flush=True)
    sys.stdin.readline()
    """
    drivers = [program(text.replace("WHO", who), **node.environment) for who in ("red", "blue")]
    for driver, who, other in zip(drivers, ("red", "blue"), ("blue", "red"), strict=True):
        driver.wait_for_output("^up")
        wait_for(lambda d=driver, w=who: f"error {w} speaks" in d.err, 5, "its stderr")  # type: ignore[misc]
        assert f"({who} pid={pid_in(driver.out)}) {who} speaks" in driver.out
        assert other not in driver.out + driver.err
    drivers[0].write_line("end")
    assert drivers[0].end() == 0
    run(
        JOIN + "    ray.get(ray.get_actor('red', namespace='shop').say.remote('to nobody'))",
        **node.environment,
    )
    log = node.folder / "node.log"
    wait_for(lambda: log.exists() and "error to nobody" in log.read_text(), 5, "the log file")
    assert "(red pid=" in log.read_text() and "to nobody" not in drivers[1].out
    assert log.stat().st_mode & 0o777 == 0o600
    node.stop()
    assert not node.folder.exists()


def pid_in(text: str) -> str:
    """Return the pid in the first line that a worker has printed."""
    return text.partition("pid=")[2].partition(")")[0]


def test_last_words_are_printed_before_a_driver_ends(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    ended = run(
        JOIN
        + """
    @ray.remote
    def speak(number):
        for line in range(300):
            print("line", number, line)

    ray.get([speak.remote(number) for number in range(4)])
    """,
        **node.environment,
    )
    assert len([line for line in ended.lines if ") line " in line]) == 1200


def test_driver_that_does_not_print_holds_up_its_own_workers_only(
    node: Node, program: Callable[..., Program], run: Callable[..., Program]
) -> None:
    """The backlog is bounded, and no output is lost once the driver resumes."""
    node.start()
    slow = program(
        JOIN
        + """
    @ray.remote
    def flood():
        line = "x" * 1000
        for number in range(40_000):
            print(line)
        return "done"

    ref = flood.remote()
    print("pid", os.getpid(), flush=True)
    # One write: print() writes the end of the line apart, and lines of the worker may come between.
    sys.stdout.write(ray.get(ref) + "\\n")
    sys.stdout.flush()
    """,
        **node.environment,
    )
    slow.wait_for_output("^pid")
    os.kill(slow.process.pid, signal.SIGSTOP)
    before = resident(node.pid)
    other = run(
        JOIN + "    ray.get(ray.remote(lambda: print('hello')).remote())\n",
        **node.environment,
    )
    assert ") hello" in other.out
    assert resident(node.pid) - before < 100 * 2**20
    os.kill(slow.process.pid, signal.SIGCONT)
    assert slow.end() == 0, slow.story()
    assert slow.out.count("x" * 1000) == 40_000 and "done" in slow.lines


def resident(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_log_to_driver_false_prints_nothing(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    ended = run(
        """
    ray.init("auto", log_to_driver=False)
    ray.get(ray.remote(lambda: print("unheard")).remote())
    """,
        **node.environment,
    )
    assert not ended.out


def test_large_values_are_read_in_place(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    ended = run(
        JOIN
        + """
    import numpy as np

    @ray.remote
    def make(size):
        return np.arange(size)

    value = ray.get(make.remote(1_000_000))
    print(value.flags.writeable, value.flags.owndata, int(value.sum()))
    ref = ray.put(np.ones(10_000_000))
    views = [ray.get(ref) for _ in range(50)]
    print(len({view.__array_interface__["data"][0] for view in views}))
    big = ray.put(np.ones(50_000_000))  # 400 MB, more than the arena
    print(int(ray.get(big).sum()))
    # Views outlive the session, whatever the node does with its memory meanwhile.
    ray.shutdown()
    ray.init("auto")
    refs = [ray.put(np.full(10_000_000, 7.0)) for _ in range(3)]
    print(int(value[10]), float(views[3].min()), float(views[3].max()))
    """,
        **node.environment,
    )
    assert ended.lines == ["False False 499999500000", "1", "50000000", "10 1.0 1.0"]
    wait_for(lambda: node.status()["memory_used"] == 0, 5, "the memory to be free again")


def test_views_that_outlive_the_session_give_their_memory_back(
    node: Node, program: Callable[..., Program]
) -> None:
    node.start()
    driver = program(
        JOIN
        + """
    import numpy as np
    view = ray.get(ray.put(np.ones(10_000_000)))
    ray.shutdown()
    print("kept", flush=True)
    sys.stdin.readline()
    del view
    print("dropped", flush=True)
    sys.stdin.readline()
    """,
        **node.environment,
    )
    driver.wait_for_output("^kept")
    assert node.status()["memory_used"] >= 80_000_000
    driver.write_line("drop")
    driver.wait_for_output("^dropped")
    wait_for(lambda: node.status()["memory_used"] == 0, 5, "the memory to be free again")


def test_interrupt_threads_asyncio_and_forks(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(
        JOIN
        + """
    import asyncio, signal, threading

    @ray.remote
    def slow(seconds):
        time.sleep(seconds)
        return seconds

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        ray.get(slow.remote(100))
    except KeyboardInterrupt:
        print("interrupted")
    results = []
    threads = [threading.Thread(target=lambda: results.append(ray.get(slow.remote(0)))) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(results)

    async def gather():
        return await asyncio.gather(*(slow.remote(0.01) for _ in range(5)))

    print(asyncio.run(gather()))
    child = os.fork()
    if not child:
        print(ray.is_initialized(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(ray.get(slow.remote(0)), flush=True)
    """,
        **node.environment,
    )
    assert driver.end() == 0, driver.story()
    assert driver.lines == ["interrupted", str([0] * 8), str([0.01] * 5), "False", "0"]


def test_call_goes_out_though_nobody_waits(node: Node, run: Callable[..., Program], tmp_path: Path) -> None:
    """Calls are sent although the driver does not wait, including the last of many that are written together."""
    node.start()
    ended = run(
        JOIN
        + """
    import pathlib
    folder = pathlib.Path(sys.argv[1])

    @ray.remote
    def touch(name):
        (folder / name).touch()

    ray.get(touch.remote("first"))
    refs = [touch.remote(f"mark-{number}") for number in range(37)]
    deadline = time.monotonic() + 20
    while len(list(folder.glob("mark-*"))) < 37:
        assert time.monotonic() < deadline, len(list(folder.glob("mark-*")))
    print("all")
    """,
        str(tmp_path),
        **node.environment,
    )
    assert ended.lines == ["all"]
