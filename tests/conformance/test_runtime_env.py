"""runtime_env: variables, folders, modules and packages for a job, a task or an actor."""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig


def reading(**options: Any) -> Any:
    @ray.remote
    def read(*names: str) -> list[str | None]:
        return [os.environ.get(name) for name in names]

    return read.options(**options)


def variables(**pairs: str) -> dict[str, Any]:
    return {"env_vars": pairs}


def importing(module: str) -> Any:
    @ray.remote
    def load() -> Any:
        import importlib

        return importlib.import_module(module).VALUE

    return load


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A project folder: data, a module, a package, and things to leave out."""
    root = tmp_path / "project"
    (root / "pack").mkdir(parents=True)
    (root / "big").mkdir()
    (root / "data.txt").write_text("content")
    (root / "tree_module.py").write_text("VALUE = 'module'\n")
    (root / "pack" / "__init__.py").write_text("VALUE = 'package'\n")
    (root / "big" / "model.bin").write_bytes(b"x" * 100)
    (root / "notes.log").write_text("log")
    return root


# env_vars


@pytest.mark.usefixtures("cluster")
def test_rte_4_env_vars_of_a_task() -> None:
    assert ray.get(reading(runtime_env=variables(RTE_A="1", RTE_B="2")).remote("RTE_A", "RTE_B")) == [
        "1",
        "2",
    ]


@pytest.mark.usefixtures("cluster")
def test_rte_4_env_vars_in_the_decorator() -> None:
    @ray.remote(runtime_env=variables(RTE_A="decorated"))
    def read() -> str | None:
        return os.environ.get("RTE_A")

    assert ray.get(read.remote()) == "decorated"
    assert ray.get(read.options(runtime_env=variables(RTE_A="options")).remote()) == "options"


@pytest.mark.usefixtures("cluster")
def test_rte_4_env_vars_of_an_actor() -> None:
    @ray.remote(runtime_env=variables(RTE_A="actor"))
    class Reads:
        def __init__(self) -> None:
            self.at_start = os.environ.get("RTE_A")

        def read(self) -> list[str | None]:
            return [self.at_start, os.environ.get("RTE_A")]

    assert ray.get(Reads.remote().read.remote()) == ["actor", "actor"]


@pytest.mark.usefixtures("cluster")
def test_rte_5_env_vars_stay_where_they_were_asked_for() -> None:
    assert ray.get(reading(runtime_env=variables(RTE_ONLY="1")).remote("RTE_ONLY")) == ["1"]
    assert ray.get([reading().remote("RTE_ONLY") for _ in range(4)]) == [[None]] * 4
    assert "RTE_ONLY" not in os.environ


@pytest.mark.usefixtures("cluster")
def test_rte_5_tasks_with_different_environments_run_in_different_processes() -> None:
    @ray.remote
    def pid() -> int:
        return os.getpid()

    one = pid.options(runtime_env=variables(RTE_A="1"))
    two = pid.options(runtime_env=variables(RTE_A="2"))
    assert ray.get(one.remote()) != ray.get(two.remote())


@pytest.mark.usefixtures("cluster")
def test_rte_4_children_inherit_the_environment_of_their_parent() -> None:
    read = reading()

    @ray.remote(runtime_env=variables(RTE_PARENT="yes"))
    def parent() -> Any:
        return ray.get(read.remote("RTE_PARENT"))

    assert ray.get(parent.remote()) == ["yes"]


@pytest.mark.usefixtures("cluster")
def test_rte_4_env_vars_may_refer_to_others() -> None:
    env = variables(PATH="/extra/bin:${PATH}")
    (path,) = ray.get(reading(runtime_env=env).remote("PATH"))
    assert path.startswith("/extra/bin:")
    assert len(path) > len("/extra/bin:")


@pytest.mark.usefixtures("cluster")
def test_rte_4_pythonpath_is_where_modules_are_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "of_the_path.py").write_text("VALUE = 5")

    @ray.remote
    def imported() -> Any:
        import of_the_path  # type: ignore[import-not-found]

        return of_the_path.VALUE

    assert ray.get(imported.options(runtime_env=variables(PYTHONPATH=str(tmp_path))).remote()) == 5


@pytest.mark.usefixtures("cluster")
def test_rte_4_empty_environment_is_none() -> None:
    assert ray.get(reading(runtime_env={}).remote("RTE_ONLY")) == [None]


def test_rte_4_env_vars_of_a_job(fresh: Any) -> None:
    fresh(num_cpus=1, runtime_env=variables(RTE_JOB="job"))

    @ray.remote
    class Reads:
        def read(self) -> str | None:
            return os.environ.get("RTE_JOB")

    assert ray.get(reading().remote("RTE_JOB")) == ["job"]
    assert ray.get(Reads.remote().read.remote()) == "job"
    assert "RTE_JOB" not in os.environ


def test_rte_4_env_vars_of_job_and_task_are_merged_by_name(fresh: Any) -> None:
    fresh(num_cpus=1, runtime_env=variables(RTE_JOB="job", RTE_BOTH="job"))
    read = reading(runtime_env=variables(RTE_TASK="task", RTE_BOTH="task"))
    assert ray.get(read.remote("RTE_JOB", "RTE_TASK", "RTE_BOTH")) == ["job", "task", "task"]
    assert ray.get(reading().remote("RTE_BOTH")) == ["job"]


def test_rte_4_env_vars_of_job_and_actor_are_merged_by_name(fresh: Any) -> None:
    fresh(num_cpus=1, runtime_env=variables(RTE_JOB="job", RTE_BOTH="job"))

    @ray.remote(runtime_env=variables(RTE_BOTH="actor"))
    class Reads:
        def read(self) -> list[str | None]:
            return [os.environ.get("RTE_JOB"), os.environ.get("RTE_BOTH")]

    assert ray.get(Reads.remote().read.remote()) == ["job", "actor"]


def test_rte_4_env_vars_of_a_task_win_over_its_parents(fresh: Any) -> None:
    fresh(num_cpus=2)
    read = reading(runtime_env=variables(RTE_BOTH="child"))

    @ray.remote(runtime_env=variables(RTE_PARENT="parent", RTE_BOTH="parent"))
    def parent() -> Any:
        return ray.get(read.remote("RTE_PARENT", "RTE_BOTH"))

    assert ray.get(parent.remote()) == ["parent", "child"]


# working_dir


def test_rte_6_working_dir_of_a_job(fresh: Any, tree: pathlib.Path) -> None:
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree)})

    @ray.remote
    def look() -> tuple[str, str, str]:
        return pathlib.Path("data.txt").read_text(), os.getcwd(), pathlib.Path("pack/__init__.py").read_text()

    data, folder, package = ray.get(look.remote())
    assert data == "content"
    assert "VALUE" in package
    # A copy, not the folder itself: what a worker writes stays with it.
    assert pathlib.Path(folder).resolve() != tree.resolve()
    assert ray.get(importing("tree_module").remote()) == "module"
    assert ray.get(importing("pack").remote()) == "package"


def test_rte_6_working_dir_reaches_actors(fresh: Any, tree: pathlib.Path) -> None:
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree)})

    @ray.remote
    class Reads:
        def read(self) -> str:
            return pathlib.Path("data.txt").read_text()

    assert ray.get(Reads.remote().read.remote()) == "content"


def test_rte_6_changing_the_copy_leaves_the_folder_alone(fresh: Any, tree: pathlib.Path) -> None:
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree)})

    @ray.remote
    def write() -> None:
        pathlib.Path("new.txt").write_text("new")

    ray.get(write.remote())
    assert not (tree / "new.txt").exists()


def listing() -> Any:
    @ray.remote
    def names() -> list[str]:
        return sorted(str(path) for path in pathlib.Path().rglob("*") if "__pycache__" not in str(path))

    return names


@pytest.mark.parametrize(
    ("patterns", "left_out"),
    [
        (["*.log"], {"notes.log"}),
        (["big"], {"big", "big/model.bin"}),
        (["big/*.bin"], {"big/model.bin"}),
        (["*.log", "pack"], {"notes.log", "pack", "pack/__init__.py"}),
    ],
    ids=["glob", "folder", "glob_in_folder", "several"],
)
def test_rte_6_excludes(fresh: Any, tree: pathlib.Path, patterns: list[str], left_out: set[str]) -> None:
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree), "excludes": patterns})
    found = set(ray.get(listing().remote()))
    assert not found & left_out
    assert "data.txt" in found


def test_rte_6_gitignore_is_honoured(fresh: Any, tree: pathlib.Path) -> None:
    (tree / ".gitignore").write_text("*.log\n/big/\n")
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree)})
    found = set(ray.get(listing().remote()))
    assert {"data.txt", "pack/__init__.py"} <= found
    assert not {"notes.log", "big/model.bin"} & found


def test_rte_6_working_dir_may_be_a_zip_file(fresh: Any, tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "project.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("project/data.txt", "zipped")
        file.writestr("project/zipped_module.py", "VALUE = 'zipped'\n")
    fresh(num_cpus=1, runtime_env={"working_dir": str(archive)})
    assert "data.txt" in " ".join(ray.get(listing().remote()))


def test_rte_4_working_dir_and_env_vars_together(fresh: Any, tree: pathlib.Path) -> None:
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree), "env_vars": {"RTE_JOB": "job"}})

    @ray.remote(runtime_env=variables(RTE_TASK="task"))
    def look() -> Any:
        return pathlib.Path("data.txt").read_text(), os.environ["RTE_JOB"], os.environ["RTE_TASK"]

    assert ray.get(look.remote()) == ("content", "job", "task")


@pytest.mark.usefixtures("cluster")
@pytest.mark.chosen_difference(
    "a task or an actor may bring a local folder of its own; Ray takes one from init() alone",
    id="D-runtime-env-folders",
)
def test_rte_6_working_dir_of_a_task(tree: pathlib.Path) -> None:
    @ray.remote(runtime_env={"working_dir": str(tree)})
    def look() -> str:
        return pathlib.Path("data.txt").read_text()

    assert ray.get(look.remote()) == "content"


# py_modules


@pytest.mark.parametrize("how", ["path", "module"])
def test_rte_6_py_modules_of_a_job(
    fresh: Any, tree: pathlib.Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = str(tree / "pack")
    if how == "module":
        monkeypatch.syspath_prepend(str(tree))
        module = __import__("pack")
        monkeypatch.delitem(__import__("sys").modules, "pack")
    fresh(num_cpus=1, runtime_env={"py_modules": [module]})
    assert ray.get(importing("pack").remote()) == "package"


def test_rte_6_py_modules_and_working_dir_together(
    fresh: Any, tree: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    other = tmp_path / "elsewhere" / "other_pack"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("VALUE = 'other'\n")
    fresh(num_cpus=1, runtime_env={"working_dir": str(tree), "py_modules": [str(other)]})
    assert ray.get(importing("other_pack").remote()) == "other"
    assert ray.get(importing("tree_module").remote()) == "module"


# packages


@pytest.fixture
def wheel(tmp_path: pathlib.Path) -> pathlib.Path:
    """A wheel built by hand, so that nothing need be fetched."""
    path = tmp_path / "conformance_dummy-1.0-py3-none-any.whl"
    meta = "conformance_dummy-1.0.dist-info"
    files = {
        "conformance_dummy.py": "VALUE = 'installed'\n",
        f"{meta}/METADATA": "Metadata-Version: 2.1\nName: conformance-dummy\nVersion: 1.0\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{meta}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (files | {f"{meta}/RECORD": record}).items():
            archive.writestr(name, text)
    return path


@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["list", "dict"])
def test_rte_3_pip_installs_for_the_task_only(fresh: Any, wheel: pathlib.Path, form: str) -> None:
    fresh(num_cpus=1)
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check"]
    pip: Any = [str(wheel)]
    if form == "dict":
        pip = {"packages": [str(wheel)], "pip_install_options": offline}
    load = importing("conformance_dummy")
    assert ray.get(load.options(runtime_env={"pip": pip}).remote(), timeout=240) == "installed"
    with pytest.raises(ModuleNotFoundError):
        ray.get(load.remote())


@pytest.mark.timeout(300)
def test_rte_3_setup_failure_of_a_task(fresh: Any, tmp_path: pathlib.Path) -> None:
    fresh(num_cpus=1)
    env = {"pip": {"packages": [str(tmp_path / "missing.whl")], "pip_install_options": ["--no-index"]}}
    with pytest.raises(RuntimeEnvSetupError):
        ray.get(reading(runtime_env=env).remote("PATH"), timeout=240)
    assert ray.get(reading().remote("RTE_ONLY"), timeout=60) == [None]


@pytest.mark.timeout(300)
def test_rte_3_setup_failure_of_an_actor(fresh: Any, tmp_path: pathlib.Path) -> None:
    fresh(num_cpus=1)
    env = {"pip": {"packages": [str(tmp_path / "missing.whl")], "pip_install_options": ["--no-index"]}}

    @ray.remote(runtime_env=env)
    class Never:
        def hi(self) -> None: ...

    with pytest.raises((RuntimeEnvSetupError, ray.exceptions.RayActorError)):
        ray.get(Never.remote().hi.remote(), timeout=240)


# the other fields


@pytest.mark.parametrize("how", ["function", "name"])
def test_rte_4_setup_hook_runs_before_the_first_task(fresh: Any, tree: pathlib.Path, how: str) -> None:
    (tree / "hook_module.py").write_text("import os\ndef hook():\n    os.environ['RTE_HOOK'] = 'ran'\n")

    def hook() -> None:
        os.environ["RTE_HOOK"] = "ran"

    given: Any = hook if how == "function" else "hook_module.hook"
    fresh(num_cpus=1, runtime_env={"worker_process_setup_hook": given, "working_dir": str(tree)})
    assert ray.get(reading().remote("RTE_HOOK")) == ["ran"]


@pytest.mark.usefixtures("cluster")
def test_rte_1_config_is_accepted() -> None:
    for config in (
        {"setup_timeout_seconds": 60},
        RuntimeEnvConfig(setup_timeout_seconds=60, eager_install=False),
    ):
        env = {"env_vars": {"RTE_A": "1"}, "config": config}
        assert ray.get(reading(runtime_env=env).remote("RTE_A")) == ["1"]


@pytest.mark.usefixtures("cluster")
def test_rte_1_runtime_env_object() -> None:
    env = RuntimeEnv(env_vars={"RTE_A": "object"})
    assert env["env_vars"] == {"RTE_A": "object"}
    assert isinstance(env, dict)
    assert ray.get(reading(runtime_env=env).remote("RTE_A")) == ["object"]


def test_rte_1_config_defaults() -> None:
    assert RuntimeEnvConfig() == {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}


# mistakes

BAD: list[tuple[str, Any, type[Exception]]] = [
    ("pip_int", {"pip": 5}, TypeError),
    ("pip_unknown_field", {"pip": {"frobnicate": 1}}, ValueError),
    ("env_vars_int_value", {"env_vars": {"A": 1}}, TypeError),
    ("env_vars_int_key", {"env_vars": {1: "A"}}, TypeError),
    ("env_vars_list", {"env_vars": ["A"]}, TypeError),
    ("working_dir_missing", {"working_dir": "/there/is/no/such/folder"}, ValueError),
    ("working_dir_int", {"working_dir": 5}, TypeError),
    ("working_dir_uri", {"working_dir": "https://example.com/archive.txt"}, ValueError),
    ("py_modules_text", {"py_modules": "pack"}, TypeError),
    ("py_modules_int", {"py_modules": [5]}, TypeError),
    ("py_modules_missing", {"py_modules": ["/there/is/no/such/folder"]}, ValueError),
    ("excludes_int", {"excludes": 5}, TypeError),
    ("pip_and_conda", {"pip": ["a"], "conda": "b"}, ValueError),
    ("pip_and_uv", {"pip": ["a"], "uv": ["b"]}, ValueError),
    ("uv_int", {"uv": 5}, TypeError),
    ("config_int", {"config": 5}, TypeError),
    ("config_timeout_text", {"config": {"setup_timeout_seconds": "x"}}, TypeError),
    ("config_timeout_zero", {"config": {"setup_timeout_seconds": 0}}, ValueError),
]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("env", "error"), [pytest.param(env, error, id=name) for name, env, error in BAD])
def test_rte_1_bad_field_is_refused_at_the_call(env: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        reading(runtime_env=env).remote("PATH")


@pytest.mark.parametrize(("env", "error"), [pytest.param(env, error, id=name) for name, env, error in BAD])
def test_rte_1_bad_field_is_refused_by_the_class(env: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        RuntimeEnv(**env)


def test_rte_1_bad_field_is_refused_by_init(fresh: Any) -> None:
    with pytest.raises(TypeError):
        fresh(num_cpus=1, runtime_env={"env_vars": {"A": 1}})


@pytest.mark.usefixtures("cluster")
def test_rte_1_bad_field_of_an_actor_is_refused_at_the_call() -> None:
    @ray.remote
    class Never:
        pass

    with pytest.raises(TypeError):
        Never.options(runtime_env={"env_vars": {"A": 1}}).remote()


@pytest.mark.usefixtures("cluster")
@pytest.mark.chosen_difference(
    "an unknown field is refused with the nearest valid name; Ray ignores it", id="D-runtime-env-keys"
)
def test_rte_2_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="env_vars"):
        reading(runtime_env={"envvars": {"A": "1"}}).remote("A")
