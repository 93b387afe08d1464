"""`skate up` and its siblings, against machines behind a fake ssh."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
import yaml

from skate.autoscaler import sdk
from skate.command import main, start
from tests.launcher.conftest import Machines

HEAD, FIRST, SECOND, UNREACHABLE = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.99"
TOKEN = ".skate/clusters/lab.token"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path)


def write(folder: Path, workers: tuple[str, ...] = (FIRST, SECOND), **more: object) -> Path:
    path = folder / "cluster.yaml"
    provider = {"type": "local", "head_ip": HEAD, "worker_ips": list(workers)}
    path.write_text(
        yaml.safe_dump({"cluster_name": "lab", "provider": provider, "auth": {"ssh_user": "me"}, **more})
    )
    return path


def test_up_starts_the_head_then_the_workers(
    machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", str(file), "-y"]) == 0
    nodes = machines.nodes()
    assert nodes[:2] == [f"{HEAD} stop head={HEAD}", f"{HEAD} start --head --port=6379 head={HEAD}"]
    assert sorted(nodes[2:]) == sorted(
        f"{host} {words} head={HEAD}"
        for host in (FIRST, SECOND)
        for words in ("stop", f"start --address={HEAD}:6379")
    )
    output = capfd.readouterr().out
    assert f"[{FIRST}] skate start --address={HEAD}:6379\n" in output
    assert f"the head {HEAD} and 2 of 2 workers are up" in output


def test_the_token_is_the_same_everywhere_and_on_no_command_line(
    machines: Machines, file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", str(file), "-y"]) == 0
    laptop = tmp_path / "laptop" / TOKEN
    paths = [laptop, *(machines.home(host) / TOKEN for host in (HEAD, FIRST, SECOND))]
    assert len({path.read_text() for path in paths}) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    token = laptop.read_text().strip()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert token not in str(machines.calls()) + str(machines.copies())
    assert token not in "".join(capfd.readouterr())

    # The head keeps its token; a worker with an old one gets it.
    (machines.home(SECOND) / TOKEN).write_text("old")
    assert main(["up", str(file), "-y"]) == 0
    assert {path.read_text().strip() for path in paths} == {token}


def test_commands_run_in_their_order_and_ray_means_skate(machines: Machines, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.txt").write_text("here")
    file = write(
        tmp_path, (FIRST,), file_mounts={"~/my data": str(data)}, initialization_commands=["cat 'my data/x.txt' >> order"],
        setup_commands=["echo ' setup' >> order"], head_setup_commands=["echo head >> order"],
        worker_setup_commands=["echo it\\'s >> order"], worker_start_ray_commands=["ray start --address=$RAY_HEAD_IP:1"],
        rsync_exclude=["*.tmp"], rsync_filter=[".gitignore"],
    )  # fmt: skip
    assert main(["up", str(file), "-y"]) == 0
    assert (machines.home(HEAD) / "order").read_text() == "here setup\nhead\n"
    assert (machines.home(FIRST) / "order").read_text() == "here setup\nit's\n"
    assert machines.nodes()[-1] == f"{FIRST} start --address={HEAD}:1 head={HEAD}"
    assert (
        "--exclude=*.tmp" in machines.copies()[0]
        and "--filter=dir-merge,- .gitignore" in machines.copies()[0]
    )


def test_restart_only_runs_no_setup_and_no_restart_leaves_living_nodes(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, (FIRST,), setup_commands=["echo x >> setup"])
    assert main(["up", str(file), "-y", "--restart-only", "--use-normal-shells"]) == 0
    assert not (machines.home(HEAD) / "setup").exists()
    started = len([line for line in machines.nodes() if " start " in line])
    assert started == 2
    assert main(["up", str(file), "-y", "--no-restart"]) == 0
    assert (machines.home(HEAD) / "setup").exists()
    assert len([line for line in machines.nodes() if " start " in line]) == started
    monkeypatch.setenv("FAKE_HEALTH", "1")
    assert main(["up", str(file), "-y", "--no-restart"]) == 0
    assert len([line for line in machines.nodes() if " start " in line]) == 2 * started


def test_a_worker_that_cannot_be_reached_is_named_and_the_others_start(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, (FIRST, UNREACHABLE))
    assert main(["up", str(file), "-y"]) == 1
    out, err = capfd.readouterr()
    assert (
        f"{UNREACHABLE} has not started: no SSH connection to me@{UNREACHABLE}: ssh: connect to host" in err
    )
    assert "Try it by hand: ssh -o" in err
    assert "1 of 2 workers are up" in out
    assert f"{FIRST} start --address={HEAD}:6379 head={HEAD}" in machines.nodes()


def test_a_failed_command_of_the_head_ends_up(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, setup_commands=["echo no space; exit 7"])
    assert main(["up", str(file), "-y"]) == 1
    assert f"a command has failed on {HEAD} with exit code 7: no space" in capfd.readouterr().err
    assert machines.nodes() == []


def test_down_stops_all_and_removes_the_token(
    machines: Machines, file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", str(file), "-y"]) == 0
    count = len(machines.nodes())
    assert main(["down", str(file), "-y", "--workers-only"]) == 0
    assert sorted(machines.nodes()[count:]) == [f"{host} stop head={HEAD}" for host in (FIRST, SECOND)]
    assert (machines.home(HEAD) / TOKEN).exists()
    assert main(["down", str(file), "-y"]) == 0
    assert machines.nodes()[-1] == f"{HEAD} stop head={HEAD}"
    assert not any((machines.home(host) / TOKEN).exists() for host in (HEAD, FIRST, SECOND))
    assert not (tmp_path / "laptop" / TOKEN).exists()
    assert "3 of 3 nodes are stopped" in capfd.readouterr().out


def test_without_a_terminal_yes_is_required(
    machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for verb in ("up", "down"):
        assert main([verb, str(file)]) == 1
        assert "Add --yes" in capfd.readouterr().err
    assert machines.calls() == []


def test_exec_has_the_exit_code_and_the_output_of_the_command(
    machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", str(file), "-y"]) == 0
    capfd.readouterr()
    assert main(["exec", str(file), "ray status; echo $HOST; exit 3", "-p", "8265"]) == 3
    assert capfd.readouterr().out == f"skate status\n{HEAD}\n"
    assert "8265:localhost:8265" in machines.calls()[-1]


def test_submit_copies_the_program_and_runs_it(
    machines: Machines, file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", str(file), "-y"]) == 0
    program = tmp_path / "my program.py"
    program.write_text("print(1)\n")
    capfd.readouterr()
    assert main(["submit", str(file), str(program), "one", "--", "--two", "a b"]) == 0
    home = machines.home(HEAD)
    assert (home / "my program.py").read_text() == "print(1)\n"
    assert capfd.readouterr().out == f"skate run {home}/my program.py one --two a b\n"
    assert main(["submit", str(file), str(tmp_path / "nowhere.py")]) == 1
    assert "there is no program" in capfd.readouterr().err


def test_sessions_of_tmux_stay_after_the_command(
    machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["exec", str(file), "sleep 1000", "--tmux"])
    assert machines.calls()[-1][-1].startswith("tmux new-session -d bash --login -i -c ")
    assert "sleep 1000; exec bash" in machines.calls()[-1][-1]
    assert main(["exec", str(file), "date", "--tmux", "--stop"]) == 1
    assert "--stop cannot wait" in capfd.readouterr().err


def test_start_starts_a_cluster_that_is_down(
    machines: Machines, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_HEALTH", "1")
    assert main(["exec", str(file), "true", "--start", "--stop"]) == 0
    assert f"{HEAD} start --head --port=6379 head={HEAD}" in machines.nodes()
    assert machines.nodes()[-1] == f"{HEAD} stop head={HEAD}"


def test_files_go_to_all_machines_and_come_back(machines: Machines, file: Path, tmp_path: Path) -> None:
    source, back = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("hello")
    assert main(["rsync-up", str(file), str(source), "got.txt", "-A"]) == 0
    assert {(machines.home(host) / "got.txt").read_text() for host in (HEAD, FIRST, SECOND)} == {"hello"}
    assert main(["rsync-down", str(file), "got.txt", str(back)]) == 0
    assert back.read_text() == "hello"


def test_attach_opens_a_terminal_on_the_machine(
    machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["attach", str(file), "--node-ip", FIRST, "--tmux"])
    assert machines.calls()[-1][-3:] == ["-tt", f"me@{FIRST}", "tmux new-session -A -s skate"]
    assert "BatchMode=yes" not in machines.calls()[-1]
    assert main(["attach", str(file), "--node-ip", "10.0.0.7"]) == 1
    assert "10.0.0.7 is no machine of 'lab'" in capfd.readouterr().err


def test_addresses_are_printed(machines: Machines, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["get-head-ip", str(file)]) == 0
    assert main(["get-worker-ips", str(file)]) == 0
    assert capfd.readouterr().out.split() == [HEAD, FIRST, SECOND]


def test_the_functions_of_the_sdk_do_the_same(machines: Machines, file: Path, tmp_path: Path) -> None:
    contents = sdk.create_or_update_cluster(str(file))
    assert contents["cluster_name"] == "lab"
    assert f"{HEAD} start --head --port=6379 head={HEAD}" in machines.nodes()
    assert (
        sdk.run_on_cluster(contents, cmd="ray status; echo $HOST", with_output=True)
        == f"skate status\n{HEAD}"
    )
    with pytest.raises(RuntimeError, match="exit code 3"):
        sdk.run_on_cluster(contents, cmd="exit 3")
    source = tmp_path / "a.txt"
    source.write_text("hello")
    sdk.rsync(contents, source=str(source), target="b.txt", down=False, ip_address=SECOND)
    assert (machines.home(SECOND) / "b.txt").read_text() == "hello"
    assert (sdk.get_head_node_ip(contents), sdk.get_worker_node_ips(str(file))) == (HEAD, [FIRST, SECOND])
    sdk.teardown_cluster(contents)
    assert machines.nodes()[-1] == f"{HEAD} stop head={HEAD}"
    contents["provider"]["worker_ips"] = [UNREACHABLE]
    with pytest.raises(
        RuntimeError, match=f"1 of the machines have not started: {UNREACHABLE}: no SSH connection"
    ):
        sdk.create_or_update_cluster(contents)


def test_a_head_without_the_autoscalers_file_does_not_grow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = start._parser().parse_args(["--head", "--autoscaling-config=~/nowhere.yaml", "--labels=a=b"])
    assert start._all_labels(given) == {"a": "b"}
    assert "there is no file ~/nowhere.yaml, so this cluster does not grow" in capsys.readouterr().err
    path = tmp_path / "cluster.yaml"
    path.write_text("provider: {type: local, head_ip: h, worker_ips: [w]}")
    given = start._parser().parse_args(["--head", "--port=6379", f"--autoscaling-config={path}"])
    assert start._all_labels(given) == {"skate.io/autoscaler": "on"}
    for words, cause in (
        (["--head"], "use it with --head and --port"),
        (["--address=h:1"], "use it with --head"),
    ):
        given = start._parser().parse_args([*words, f"--autoscaling-config={path}"])
        with pytest.raises(ValueError, match=cause):
            start._all_labels(given)
    path.write_text("provider: {type: aws}")
    given = start._parser().parse_args(["--head", "--port=6379", f"--autoscaling-config={path}"])
    with pytest.raises(ValueError, match="--autoscaling-config: .*aws"):
        start._all_labels(given)
