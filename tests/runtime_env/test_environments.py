"""Virtual environments: created once, with the node's packages, and reported when they fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.packages import installers, virtual_environments
from skate.runtime_env.prepare import Prepared, prepare, validate

from .conftest import MakeWheel


def prepared(cache: Cache, **fields: Any) -> Prepared:
    return prepare(validate(fields, where="init()"), cache.root)


def offline(*wheels: Path, **options: Any) -> dict[str, Any]:
    return {"packages": [str(wheel) for wheel in wheels], "pip_install_options": ["--no-index"], **options}


def run_python(found: Prepared, code: str) -> str:
    assert found.argv is not None
    done = subprocess.run(
        [*found.argv, "-c", code],
        env={**os.environ, **found.env_vars, "PYTHONPATH": ""},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pip_installs_beside_what_the_node_has(cache: Cache, make_wheel: MakeWheel) -> None:
    found = prepared(cache, pip=offline(make_wheel("tiny_one", "1.5")))
    assert run_python(found, "import tiny_one; print(tiny_one.VALUE)") == "1.5"
    node_has = run_python(
        found, "import hypothesis, skate.exceptions as e; print(hypothesis.__file__, e.__file__)"
    )
    import hypothesis

    import skate.exceptions

    assert node_has == f"{hypothesis.__file__} {skate.exceptions.__file__}"
    assert found.python is not None
    assert found.env_vars["VIRTUAL_ENV"] == str(Path(found.python).parents[1])
    assert found.env_vars["PATH"].startswith(str(Path(found.python).parent) + os.pathsep)


def test_what_is_installed_comes_before_what_the_node_has(cache: Cache, make_wheel: MakeWheel) -> None:
    found = prepared(cache, pip=offline(make_wheel("iniconfig", "99.0")))
    assert run_python(found, "import iniconfig; print(iniconfig.VALUE)") == "99.0"


def test_the_same_packages_are_installed_once(
    cache: Cache, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel("tiny_two")
    first = prepared(cache, pip=offline(wheel))
    monkeypatch.setattr(virtual_environments, "create", never)
    again = prepared(cache, pip=offline(wheel), env_vars={"A": "1"}, config={"setup_timeout_seconds": 5})
    assert again.python == first.python
    with pytest.raises(AssertionError, match="made again"):
        prepared(cache, pip=offline(wheel, pip_check=True))


def never(path: Path) -> None:
    raise AssertionError(f"{path} was made again")


def test_a_wheel_with_other_contents_is_another_environment(cache: Cache, make_wheel: MakeWheel) -> None:
    wheel = make_wheel("tiny_three", "1.0")
    first = prepared(cache, pip=offline(wheel))
    shutil.copy(make_wheel("tiny_four", "1.0"), other := wheel.with_name("other"))
    with open(wheel, "ab") as file, open(other, "rb") as more:
        file.truncate(0)
        shutil.copyfileobj(more, file)
    with pytest.raises(RuntimeEnvSetupError):
        prepared(cache, pip=offline(wheel))
    assert first.python is not None


def test_two_threads_run_one_install(
    cache: Cache, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []
    real = installers.run
    monkeypatch.setattr(
        virtual_environments, "run", lambda command, *rest: (commands.append(command), real(command, *rest))
    )
    wheel = make_wheel("tiny_five")
    both = threading.Barrier(2)
    found: list[Prepared] = []

    def ask() -> None:
        both.wait(10)
        found.append(prepared(cache, pip=offline(wheel)))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    assert found[0] == found[1]
    assert len(commands) == 1


def test_a_failure_tells_the_command_and_the_installers_own_words(cache: Cache, tmp_path: Path) -> None:
    log_file = tmp_path / "my.log"
    spec = {"packages": ["no_such_package_here==1.2"], "pip_install_options": ["--no-index"]}
    with pytest.raises(RuntimeEnvSetupError) as caught:
        prepared(cache, pip=spec, config={"log_files": [str(log_file)]})
    text = str(caught.value)
    assert "installing packages with pip failed: " in text
    assert "-m pip install --no-index -r " in text
    assert "No matching distribution found for no_such_package_here==1.2" in text
    [log] = (cache.root / "logs").iterdir()
    assert str(log) in text
    assert log_file.read_bytes() == log.read_bytes()
    assert list((cache.root / "venvs").iterdir()) == [], "a failed environment is not kept"
    assert cache.in_use() == []


def test_a_failure_is_not_remembered(cache: Cache, make_wheel: MakeWheel) -> None:
    wheel = make_wheel("tiny_six")
    content = wheel.read_bytes()
    spec = {
        "packages": ["tiny_six"],
        "pip_install_options": ["--no-index", "--find-links", str(wheel.parent)],
    }
    wheel.unlink()
    with pytest.raises(RuntimeEnvSetupError, match="tiny_six"):
        prepared(cache, pip=spec)
    wheel.write_bytes(content)
    assert run_python(prepared(cache, pip=spec), "import tiny_six; print(tiny_six.VALUE)") == "1.0"


def test_pip_check_refuses_what_does_not_fit_together(cache: Cache, make_wheel: MakeWheel) -> None:
    wheel = make_wheel("tiny_seven", requires="no_such_package_here")
    spec = offline(wheel)
    spec["pip_install_options"].append("--no-deps")
    prepared(cache, pip=spec)
    with pytest.raises(RuntimeEnvSetupError, match=r"checking the packages with pip failed(.|\n)*tiny.seven"):
        prepared(cache, pip={**spec, "pip_check": True})


def test_variables_of_the_environment_steer_the_installer(cache: Cache, make_wheel: MakeWheel) -> None:
    wheel = make_wheel("tiny_eight")
    env_vars = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    found = prepared(cache, pip=["tiny_eight"], env_vars=env_vars)
    assert run_python(found, "import tiny_eight; print(tiny_eight.VALUE)") == "1.0"


def test_the_time_limit_ends_the_installer_and_what_it_started(cache: Cache, tmp_path: Path) -> None:
    stuck = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'while True: pass']).wait()"
    log = tmp_path / "log"
    with pytest.raises(RuntimeEnvSetupError, match=r"longer than 0\.3 s and was cut off while installing"):
        installers.run([sys.executable, "-c", stuck], "installing", log, Deadline(0.3), {})


def test_cancelling_ends_the_installer(cache: Cache, tmp_path: Path) -> None:
    stop = threading.Event()
    log = tmp_path / "log"
    code = "print('started', flush=True)\nwhile True: pass"
    raised: list[BaseException] = []

    def work() -> None:
        try:
            installers.run([sys.executable, "-c", code], "installing", log, Deadline(None, stop), {})
        except RuntimeEnvSetupError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = Deadline(20)
    try:
        while b"\nstarted\n" not in (log.read_bytes() if log.exists() else b""):
            deadline.check("waiting for the installer to start")
    finally:
        stop.set()
        thread.join(20)
    assert [str(error) for error in raised if "cancelled while installing" in str(error)]


KILLED = """
import sys
from pathlib import Path
from skate.runtime_env.packages import installers
from skate.runtime_env.deadline import Deadline
code = "import os, time\\nprint('pid', os.getpid(), flush=True)\\nwhile True: time.sleep(1)"
installers.run([sys.executable, "-c", code], "installing", Path(sys.argv[1]), Deadline(None), {})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_the_installer_ends_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", KILLED, str(log)], env=env) as driver:
        try:
            deadline = Deadline(20)
            while not (pid_line := re.search(rb"\npid (\d+)\n", log.read_bytes() if log.exists() else b"")):
                deadline.check("waiting for the installer to start")
        finally:
            driver.kill()
    installer = Path("/proc", pid_line[1].decode())
    while installer.exists() and ") Z " not in (installer / "stat").read_text():
        deadline.check(f"waiting for the installer {installer.name} to end")


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeEnvSetupError, match="/no/such/command"):
        installers.run(["/no/such/command"], "installing", tmp_path / "log", Deadline(None), {})


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    url = "https://user:hunter2@host/simple"
    command = [sys.executable, "-c", f"print({url!r}); raise SystemExit(3)", f"--index-url={url}"]
    with pytest.raises(RuntimeEnvSetupError) as caught:
        installers.run(command, "installing", tmp_path / "log", Deadline(None), {})
    assert "hunter2" not in str(caught.value)
    assert "https://***@host/simple" in str(caught.value)
    assert "ended with code 3" in str(caught.value)


def test_the_way_back_to_the_node_obeys_its_pth_files() -> None:
    lines = virtual_environments.parent_lines()
    assert all(line.startswith("import site; site.addsitedir(") for line in lines)
    assert str(Path(virtual_environments.__file__).resolve().parents[3]) in "".join(lines)


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed, and fetching it needs a network")
def test_uv_installs_as_well(cache: Cache, make_wheel: MakeWheel) -> None:
    spec = {
        "packages": [str(make_wheel("tiny_nine", "2.0"))],
        "uv_pip_install_options": ["--no-index", "--offline"],
    }
    found = prepared(cache, uv=spec)
    assert run_python(found, "import tiny_nine, hypothesis; print(tiny_nine.VALUE)") == "2.0"


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed, and fetching it needs a network")
def test_a_failure_of_uv_is_told(cache: Cache) -> None:
    spec = {"packages": ["no_such_package_here"], "uv_pip_install_options": ["--no-index", "--offline"]}
    with pytest.raises(
        RuntimeEnvSetupError, match=r"installing packages with uv failed(.|\n)*no-such-package-here"
    ):
        prepared(cache, uv=spec)
