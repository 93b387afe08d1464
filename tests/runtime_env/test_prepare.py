"""The engine's interface: the settings of a worker."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env import cache as caches
from skate.runtime_env import trees
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.identity import env_key
from skate.runtime_env.prepare import Prepared, prepare, release, share, validate

from .conftest import MakeWheel


def prepared(cache: Cache, **fields: Any) -> Prepared:
    return prepare(validate(fields, where="init()"), cache.root)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").write_text("NAME = 'pkg'\n")
    (root / "single.py").write_text("NAME = 'single'\n")
    (root / "data.txt").write_text("data")
    return root


def imported(found: Prepared, code: str) -> str:
    """Run code as in a worker with this environment, and return its output."""
    setup = f"import sys; sys.path[:0] = {found.sys_path!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + code], cwd=found.cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_asked_nothing_done(cache: Cache) -> None:
    assert prepared(cache) == Prepared(env_vars={}, sys_path=[])
    assert cache.in_use() == []


def test_a_working_directory_is_a_copy_to_start_in(cache: Cache, project: Path) -> None:
    found = prepared(cache, working_dir=str(project), excludes=["data.txt"])
    assert found.sys_path == [found.cwd]
    assert imported(found, "import os; print(sorted(os.listdir()))") == "['pkg', 'single.py']"
    assert imported(found, "import single; print(single.NAME)") == "single"
    assert found.cwd is not None
    (Path(found.cwd) / "single.py").write_text("changed")
    assert (project / "single.py").read_text() == "NAME = 'single'\n"


def test_what_workers_write_does_not_reach_the_next_session(cache: Cache, project: Path) -> None:
    found = prepared(cache, working_dir=str(project))
    assert found.cwd is not None
    (Path(found.cwd) / "result.txt").write_text("x")
    release(found, cache.root)
    assert not Path(found.cwd).exists()
    later = Cache(cache.root)
    assert later.session != cache.session
    again = prepared(cache, working_dir=str(project))
    assert again.cwd is not None
    assert not (Path(again.cwd) / "result.txt").exists()


def test_modules_are_found_in_every_form(cache: Cache, project: Path, make_wheel: MakeWheel) -> None:
    archive = project / "zipped.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("zipped/__init__.py", "NAME = 'zipped'\n")
    modules = [str(project / "pkg"), str(project / "single.py"), str(make_wheel("wheeled")), str(archive)]
    found = prepared(cache, py_modules=modules)
    assert (found.cwd, len(found.sys_path)) == (None, 4)
    assert imported(
        found, "import pkg, single, wheeled, zipped; print(pkg.NAME, single.NAME, wheeled.VALUE, zipped.NAME)"
    ) == ("pkg single 1.0 zipped")


def test_modules_with_the_same_files_are_two_modules(cache: Cache, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    found = prepared(cache, py_modules=[str(tmp_path / "first"), str(tmp_path / "second")])
    assert imported(found, "import first, second; print('both')") == "both"


def test_modules_come_before_the_working_directory(cache: Cache, project: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "single.py").write_text("NAME = 'module'\n")
    found = prepared(cache, working_dir=str(project), py_modules=[str(tmp_path / "other" / "single.py")])
    assert imported(found, "import single; print(single.NAME)") == "module"


def test_a_wheel_may_keep_its_modules_one_level_down(cache: Cache, tmp_path: Path) -> None:
    wheel = tmp_path / "deep-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("deep-1.0.data/purelib/deep.py", "NAME = 'deep'\n")
    found = prepared(cache, py_modules=[str(wheel)])
    assert imported(found, "import deep; print(deep.NAME)") == "deep"


def test_a_local_archive_is_unpacked_as_it_is_and_a_remote_one_lifted(cache: Cache, tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("top/a.txt", "a")
    local = prepared(cache, working_dir=str(archive))
    remote = prepared(cache, working_dir=f"file://{archive}")
    assert local.cwd is not None
    assert remote.cwd is not None
    assert (Path(local.cwd) / "top" / "a.txt").read_text() == "a"
    assert (Path(remote.cwd) / "a.txt").read_text() == "a"


def test_a_local_uri_is_used_where_it_is(cache: Cache, project: Path) -> None:
    found = prepared(cache, working_dir=f"local://{project}", py_modules=[f"local://{project}/pkg"])
    assert (found.cwd, found.sys_path) == (str(project), [str(project), str(project)])
    with pytest.raises(RuntimeEnvSetupError, match="this machine has no folder /no/such"):
        prepared(cache, working_dir="local:///no/such")


def test_variables_stand_for_those_before_them_and_the_nodes(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODES", "node")
    monkeypatch.delenv("UNSET", raising=False)
    env_vars = {"A": "${NODES}/a", "B": "${A}:${UNSET}:$NODES", "NODES": "${NODES}!"}
    found = prepared(cache, env_vars=env_vars)
    assert found.env_vars == {"A": "node/a", "B": "node/a::$NODES", "NODES": "node!"}


def test_an_executable_and_a_hook_are_handed_on(cache: Cache) -> None:
    found = prepared(cache, py_executable="'/my python' -O", worker_process_setup_hook="my.hook")
    assert (found.python, found.argv) == ("'/my python' -O", ["/my python", "-O"])
    assert found.setup_hook == "my.hook"
    assert isinstance(prepared(cache, worker_process_setup_hook=print).setup_hook, bytes)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"image_uri": "x"}, "image_uri"),
        ({"container": {"image": "x"}}, "container"),
        ({"java_jars": ["x"]}, "java_jars"),
        ({"nsight": "default"}, "nsight"),
        ({"rocprof_sys": "default"}, "rocprof_sys"),
    ],
)
def test_what_cannot_be_honoured_is_an_error_and_not_silence(
    cache: Cache, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(RuntimeEnvSetupError, match=f"runtime_env\\['{named}'\\]"):
        prepared(cache, **fields)


def test_a_shared_environment_keeps_the_files_of_its_time(cache: Cache, project: Path) -> None:
    env = validate({"working_dir": str(project), "py_modules": [str(project / "pkg")]}, where="init()")
    shared = share(env, cache.root)
    assert all(uri.startswith("gcs://_ray_pkg_") for uri in (shared["working_dir"], *shared["py_modules"]))
    (project / "single.py").write_text("NAME = 'later'\n")
    (project / "pkg" / "__init__.py").write_text("NAME = 'later'\n")
    assert validate(shared, where="again") == shared == share(shared, cache.root)
    found = prepare(shared, cache.root)
    assert imported(found, "import single, pkg; print(single.NAME, pkg.NAME)") == "single pkg"
    assert env_key(shared) != env_key(share(env, cache.root))


def test_a_shared_environment_is_fetched_where_it_is_missing(
    cache: Cache, project: Path, tmp_path: Path, make_wheel: MakeWheel
) -> None:
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", project)
    modules = [str(make_wheel("tiny", "1.5")), str(project / "pkg")]
    shared = share(validate({"working_dir": archive, "py_modules": modules}, where="init()"), cache.root)
    names = []

    def fetch(name: str, target: Path, deadline: Deadline) -> None:
        names.append(name)
        shutil.copyfile(cache.root / "packages" / name.removeprefix("_ray_pkg_"), target)

    elsewhere = caches.at(tmp_path / "elsewhere")
    for _ in range(2):
        found = prepare(shared, elsewhere.root, fetch_package=fetch)
        code = "import single, pkg, tiny; print(single.NAME, pkg.NAME, tiny.VALUE)"
        assert imported(found, code) == "single pkg 1.5"
        assert found.cwd is not None and (Path(found.cwd) / "single.py").is_file()
    assert len(names) == 3
    with pytest.raises(
        RuntimeEnvSetupError, match="is a package of a cluster, but this process belongs to none"
    ):
        prepare(shared, caches.at(tmp_path / "nowhere").root)
    with pytest.raises(RuntimeEnvSetupError, match="names no package"):
        prepare({"working_dir": "gcs://../../etc/x.zip"}, elsewhere.root, fetch_package=fetch)
    elsewhere.close()


def test_an_archive_larger_than_a_package_is_refused(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.zip").write_bytes(b"0" * 101)
    monkeypatch.setattr(trees, "LIMIT_BYTES", 100)
    with pytest.raises(RuntimeEnvSetupError, match=r"large\.zip' has 0\.1 KiB, more than"):
        share({"working_dir": str(tmp_path / "large.zip")}, cache.root)


def test_a_folder_that_keeps_changing_is_an_error(
    cache: Cache, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trees.pack
    monkeypatch.setattr(trees, "pack", lambda *args: real(*args) + "changed")
    with pytest.raises(RuntimeEnvSetupError, match="kept changing while it was packed"):
        prepared(cache, working_dir=str(project))
    assert cache.in_use() == []


def test_a_failure_holds_nothing(cache: Cache, project: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_text("no archive")
    with pytest.raises(RuntimeEnvSetupError, match=r"broken\.zip is neither a zip nor a tar archive"):
        prepared(cache, working_dir=str(tmp_path / "broken.zip"), py_modules=[str(project / "pkg")])
    assert cache.in_use() == []


def test_an_archive_that_has_gone_meanwhile(cache: Cache, tmp_path: Path) -> None:
    archive = tmp_path / "gone.zip"
    archive.write_bytes(b"")
    env = validate({"working_dir": str(archive)}, where="init()")
    archive.unlink()
    with pytest.raises(RuntimeEnvSetupError, match="does not any more"):
        prepare(env, cache.root)


def test_release_lets_go_of_everything_once_each(cache: Cache, project: Path) -> None:
    first = prepared(cache, working_dir=str(project), py_modules=[str(project / "pkg")])
    second = prepared(cache, working_dir=str(project))
    release(first, cache.root)
    assert set(cache.in_use()) == set(second.entries)
    release(second, cache.root)
    assert cache.in_use() == []


def test_two_threads_that_prepare_the_same_share_it(cache: Cache, project: Path) -> None:
    both = threading.Barrier(2)
    found: list[Prepared] = []

    def ask() -> None:
        both.wait(10)
        found.append(prepared(cache, working_dir=str(project), py_modules=[str(project / "pkg")]))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_cancelled_set_up_ends(cache: Cache, project: Path) -> None:
    stop = threading.Event()
    stop.set()
    env = validate({"working_dir": str(project)}, where="init()")
    with pytest.raises(RuntimeEnvSetupError, match="cancelled"):
        prepare(env, cache.root, cancelled=stop)
