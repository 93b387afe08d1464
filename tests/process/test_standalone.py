"""A node in a separate process: started, found, rejected, stopped and killed, without leftovers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skate.node.driver import address
from tests.conformance.waiting import wait_for
from tests.process.programs import Program, listening_ports
from tests.process.standing import Node

JOIN = """
    import os, sys, time
    ray.init(address="auto")
"""
KEEPER = """
    @ray.remote
    class Keeper:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

        def pid(self):
            return os.getpid()
"""


def test_start_prints_how_to_go_on_and_stop_leaves_nothing(node: Node) -> None:
    output = node.start()
    assert 'address="auto"' in output and "skate stop" in output and f"skate://{node.path}" in output
    assert list(node.processes()) == [node.pid]
    assert os.stat(node.folder).st_mode & 0o777 == 0o700
    assert os.listdir(node.folder) == [f"node-{node.pid}.sock"]
    assert "stopped" in node.stop()
    assert not node.folder.exists()
    node.gone()
    assert "nothing to stop" in node.stop()


def test_start_is_quick(node: Node) -> None:
    begun = time.monotonic()
    node.start()
    # The documented time is well under a second; a loaded machine gets three seconds.
    assert time.monotonic() - begun < 3


def test_a_second_start_is_refused_with_the_address_of_the_first(node: Node) -> None:
    node.start()
    second = node.command("start", "--head", check=False)
    assert second.returncode == 1
    assert node.path in second.stderr
    assert list(node.processes()) == [node.pid]


def test_flags_without_a_meaning_here_are_named(node: Node) -> None:
    ended = node.command(
        "start", "--head", "--node-manager-port=8080", "--log-color", "false", "--num-cpus=1"
    )
    assert (
        "--node-manager-port" in ended.stderr
        and "--log-color" in ended.stderr
        and "without effect" in ended.stderr
    )


def test_settings_of_the_node_are_said_at_its_start_and_actors_end_by_name(
    node: Node, program: Callable[..., Program], tmp_path: Path
) -> None:
    (tmp_path / "labels.yaml").write_text("zone: b\nrack: 7a\n")
    labels = ("--labels", "zone=a", "--labels-file", str(tmp_path / "labels.yaml"))
    node.start("--resources", '{"licence": 2}', *labels, cpus=3)
    started = program(
        JOIN
        + """
    labels = ray.nodes()[0]["Labels"]
    print(ray.cluster_resources()["CPU"], ray.cluster_resources()["licence"], labels["zone"], labels["rack"])
    for name in ("quick", "slow"):
        ray.remote(dict).options(name=name, lifetime="detached").remote()
    """,
        **node.environment,
    )
    assert started.end() == 0 and started.lines == ["3.0 2.0 a 7a"]
    assert "Actor killed (force): quick" in node.command("kill-actor", "--name", "quick", "--force").stdout
    assert "graceful termination for actor: slow" in node.command("kill-actor", "--name", "slow").stdout
    for name in ("quick", "slow"):
        assert node.command("kill-actor", "--name", name, check=False).returncode == 1


def test_bad_settings_start_nothing(node: Node) -> None:
    for flags in (["--num-cpus", "-1"], ["--resources", "[1]"], ["--object-store-memory", "1"]):
        refused = node.command("start", "--head", *flags, check=False)
        assert refused.returncode == 1 and refused.stderr.startswith("skate start: "), refused
    assert not node.processes()
    assert "nothing to stop" in node.stop()


def test_joining_by_every_kind_of_address(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    text = """
    context = ray.init(ADDRESS)
    assert context.address_info["address"] == ray.get_runtime_context().gcs_address
    print(context.address_info["address"])
    """
    for given, environment in (
        ('"auto"', {}),
        (repr(node.path), {}),
        (repr("skate://" + node.path), {}),
        ("", {"SKATE_ADDRESS": node.path}),
        ("", {"RAY_ADDRESS": "auto"}),
    ):
        ended = run(text.replace("ADDRESS", given), **node.environment, **environment)
        assert ended.lines == [node.path]


def test_verbs_ask_the_node_that_the_environment_names(node: Node, tmp_path: Path) -> None:
    node.start()
    elsewhere = {"SKATE_TMPDIR": str(tmp_path / "nothing here")}
    for name in ("SKATE_ADDRESS", "RAY_ADDRESS"):
        for words in (["list", "nodes"], ["summary", "tasks"], ["memory", "--stats-only"], ["status"]):
            node.command(*words, **elsewhere, **{name: node.path})
    refused = node.command("list", "nodes", check=False, **elsewhere)
    assert refused.returncode == 1 and "nothing here" in refused.stderr
    refused = node.command("list", "nodes", check=False, SKATE_ADDRESS="skate:///gone/node-1.sock")
    assert refused.returncode == 1 and "/gone/node-1.sock" in refused.stderr


def test_plain_init_hosts_its_own_node(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    ended = run('print(ray.init(START).address_info["address"])', **node.environment)
    (address,) = ended.lines
    assert address.startswith("skate://@") and address != node.path


def test_settings_of_the_node_are_refused_when_joining(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    ended = run(
        """
    try:
        ray.init("auto", num_cpus=2)
    except ValueError as error:
        print(error)
    print(ray.is_initialized())
    """,
        **node.environment,
    )
    assert "num_cpus is a setting of a node" in ended.lines[0] and ended.lines[1] == "False"


def test_auto_without_a_node_says_where_it_looked(node: Node, run: Callable[..., Program]) -> None:
    ended = run(
        """
    try:
        ray.init(address="auto")
    except ConnectionError as error:
        print(error)
    """,
        **node.environment,
    )
    assert str(node.folder) in ended.out and "skate start --head" in ended.out


def test_stale_address_is_told_as_such(node: Node, run: Callable[..., Program]) -> None:
    node.start()
    stale = node.path
    os.kill(node.pid, signal.SIGKILL)
    node.gone()
    text = f"""
    try:
        ray.init(address={stale!r})
    except ConnectionError as error:
        print(error)
    """
    output = run(text, **node.environment).out
    assert f"its process {node.pid} is gone" in output and stale in output
    assert os.listdir(node.folder) == [os.path.basename(stale)]
    # The next start replaces what was left.
    assert stale in node.start() and not os.path.exists(stale)
    assert f"its process {address.pid_of(stale)} is gone" in run(text, **node.environment).out
    node.stop()


def test_stop_removes_what_a_killed_node_left(node: Node) -> None:
    node.start()
    os.kill(node.pid, signal.SIGKILL)
    node.gone()
    assert "Removed" in node.stop()
    assert not os.listdir(node.folder)


def test_stop_by_force(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(JOIN + KEEPER + "    k = Keeper.remote(); print(ray.get(k.add.remote()), flush=True); time.sleep(60)",
                     **node.environment)  # fmt: skip
    driver.wait_for_output("^1")
    assert "killed" in node.stop("--force")
    node.gone()
    wait_for(lambda: not driver.others(), 2, "the end of the driver's workers")
    assert not os.listdir(node.folder)


def test_a_stopped_node_is_killed_after_the_grace_period(node: Node) -> None:
    node.start()
    os.kill(node.pid, signal.SIGSTOP)
    assert "killed" in node.stop("--grace-period", "0.2")
    node.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_ask_the_node_to_end_are_heeded(number: signal.Signals, node: Node) -> None:
    node.start()
    os.kill(node.pid, number)
    node.gone()
    assert not node.folder.exists()


def test_block_is_the_node_until_it_is_told_to_end(node: Node) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "skate", "start", "--head", "--block", "--num-cpus", "1"],
        env={**os.environ, **node.environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(f"node-{process.pid}.sock" in line for line in process.stdout)
        assert node.status()["pid"] == process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert not node.folder.exists()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_folder_that_others_may_enter_is_refused(mode: int, node: Node, run: Callable[..., Program]) -> None:
    node.folder.mkdir()
    node.folder.chmod(mode)
    refused = node.command("start", "--head", check=False)
    assert refused.returncode == 1 and "chmod 700" in refused.stderr
    assert not os.listdir(node.folder)
    ended = run("ray.init(address='auto')", code=1, **node.environment)
    assert "chmod 700" in ended.err


def test_folder_that_is_a_link_is_refused(node: Node, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    node.folder.symlink_to(tmp_path / "elsewhere")
    refused = node.command("start", "--head", check=False)
    assert refused.returncode == 1 and "symbolic link" in refused.stderr


def test_socket_in_a_folder_with_a_long_name(node: Node, run: Callable[..., Program]) -> None:
    node.folder = node.folder.parent / ("x" * 120)
    node.start()
    assert run(JOIN + "    print('joined')", **node.environment).lines == ["joined"]


def test_no_port_is_opened(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(JOIN + KEEPER + "    k = Keeper.remote(); print(ray.get(k.add.remote()), flush=True); time.sleep(60)",
                     **node.environment)  # fmt: skip
    driver.wait_for_output("^1")
    pids = [*node.processes(), driver.process.pid, *driver.others()]
    assert len(pids) >= 4
    assert not list(listening_ports(pids))


def test_who_connects_without_a_word_or_with_a_wrong_one_harms_nobody(
    node: Node, run: Callable[..., Program]
) -> None:
    node.start()
    for junk in (b"", b"\x93\x01\x02\x03", b"\xff" * 100, os.urandom(4000)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(node.path)
            stranger.sendall(junk)
    assert run(JOIN + "    print('joined')", **node.environment).lines == ["joined"]


def test_node_killed_under_a_waiting_get(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(
        JOIN
        + """
    import threading

    @ray.remote
    def forever():
        time.sleep(1000)

    ref = forever.remote()

    def wait():
        try:
            ray.get(ref)
        except ConnectionError as error:
            print("thread:", error, flush=True)

    thread = threading.Thread(target=wait)
    thread.start()
    print("waiting", flush=True)
    try:
        ray.get(ref)
    except ray.exceptions.RaySystemError as error:
        print("main:", error, flush=True)
    thread.join()
    try:
        forever.remote()
    except ray.exceptions.RaySystemError:
        print("refused", flush=True)
    ray.init(START)
    print("again", ray.is_initialized(), flush=True)
    """,
        **node.environment,
    )
    driver.wait_for_output("^waiting")
    wait_for(lambda: len(driver.others()) >= 2, 20, "a worker")
    os.kill(node.pid, signal.SIGKILL)
    wait_for(lambda: "main:" in driver.out and "thread:" in driver.out, 2, "the errors")
    assert f"its process {node.pid} has died" in driver.out and "node-" in driver.out
    assert driver.end() == 0, driver.story()
    assert driver.lines[-2:] == ["refused", "again True"]
    driver.gone()


def test_workers_end_with_a_killed_node(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(
        JOIN + KEEPER + "    k = Keeper.options(name='k', lifetime='detached').remote(); print(ray.get(k.add.remote()))",
        **node.environment,
    )  # fmt: skip
    assert driver.end() == 0, driver.story()
    assert driver.others()
    os.kill(node.pid, signal.SIGKILL)
    driver.gone(1.0)


def test_a_stopped_node_tells_its_drivers_so(node: Node, program: Callable[..., Program]) -> None:
    node.start()
    driver = program(
        JOIN
        + """
    @ray.remote
    def forever():
        time.sleep(1000)

    ref = forever.remote()
    print("waiting", flush=True)
    try:
        ray.get(ref)
    except ray.exceptions.RaySystemError as error:
        print(error)
    """,
        **node.environment,
    )
    driver.wait_for_output("^waiting")
    node.stop()
    assert driver.end() == 0, driver.story()
    assert "it was stopped" in driver.out
    driver.gone()


def test_status_shows_drivers_actors_and_what_waits(node: Node, program: Callable[..., Program]) -> None:
    node.start(cpus=2)
    driver = program(
        JOIN
        + KEEPER
        + """
    k = Keeper.options(name="k", namespace="mine", num_cpus=2).remote()
    print(ray.get(k.add.remote()), flush=True)
    refs = [ray.remote(lambda: 1).options(name="starved").remote() for _ in range(3)]
    time.sleep(60)
    """,
        **node.environment,
    )
    driver.wait_for_output("^1")
    wait_for(lambda: node.status()["pending"], 10, "demand")
    shown = node.command("status").stdout
    assert f"pid {driver.process.pid}" in shown and "program.py" in shown
    assert "Keeper 'k' in namespace 'mine': ALIVE" in shown
    assert "CPU: 2 of 2" in shown
    assert "3 x starved" in shown and "CPU" in shown.partition("waiting:")[2]


def test_status_without_a_node(node: Node) -> None:
    done = node.command("status", check=False)
    assert done.returncode == 1 and "skate start --head" in done.stderr


def test_output_of_workers_is_kept_in_files_on_request(
    node: Node, run: Callable[..., Program], tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    node.start("--log-dir", str(logs))
    text = """
    import os, sys
    ray.init("auto", log_to_driver=False)

    @ray.remote
    def speak():
        print("first\\nsecond")
        print("wrong", file=sys.stderr)
        here = ray.get_runtime_context()
        return f"worker-{here.get_worker_id()}-{here.get_job_id()}-{os.getpid()}"

    print("name", ray.get(speak.remote()))
    """
    driver = run(text, **node.environment)
    name = driver.wait_for_output("^name .*").split()[1]
    out = logs / f"{name}.out"
    wait_for(lambda: out.exists() and out.read_text() == "first\nsecond\n", 5, "the lines in the file")
    assert (logs / f"{name}.err").read_text() == "wrong\n"
    # The worker has ended with its program; its lines are read from the file.
    listed = node.command("logs", "cluster", "worker-*").stdout
    assert f"{name}.out" in listed and f"{name}.err" in listed
    assert node.command("logs", f"{name}.out", "--tail", "1").stdout.endswith("\n\nsecond\n")
    assert node.command("logs", f"{name}.out", "--tail", "-1", "--follow").stdout == "first\nsecond\n"
    (logs / "secret").symlink_to("/etc/passwd")
    for outside in ("secret", "../node/node.log", "/etc/passwd", "."):
        assert "root" not in node.command("logs", outside, check=False).stdout
    other = Node(tmp_path / "other")
    refused = other.command("start", "--head", "--num-cpus", "1", "--log-dir", str(logs), check=False)
    assert refused.returncode == 1 and "another node writes its logs" in refused.stderr
    node.stop()
    assert out.exists()
