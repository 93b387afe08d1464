"""``skate.compat``: ``ray`` as another name for Skate, in this process and beside a real Ray."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
import skate.exceptions
import skate.util
from skate import compat


@pytest.fixture
def installed() -> Iterator[None]:
    already = compat.is_installed()
    compat.install()
    yield
    if not already:
        compat.uninstall()


def python(code: str, *, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter of its own, with ``path`` ahead of everything on sys.path."""
    source = str(Path(skate.__file__).parents[1])
    environment = {k: v for k, v in os.environ.items() if k != compat.ENVIRONMENT_VARIABLE}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, source]))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def test_ray_is_skate_itself(installed: None) -> None:
    assert importlib.import_module("ray") is skate


@pytest.mark.parametrize("name", ["util", "exceptions", "util.queue", "util.scheduling_strategies", "actor"])
def test_a_submodule_is_the_same_object_under_both_names(installed: None, name: str) -> None:
    assert importlib.import_module(f"ray.{name}") is importlib.import_module(f"skate.{name}")


def test_a_class_has_one_identity_under_both_names(installed: None) -> None:
    from_ray = importlib.import_module("ray.exceptions")
    assert from_ray.RayError is skate.exceptions.RayError


def test_the_skate_module_keeps_its_own_spec(installed: None) -> None:
    importlib.import_module("ray.util")
    assert skate.util.__spec__ is not None
    assert skate.util.__spec__.name == "skate.util"
    assert skate.util.__name__ == "skate.util"


def test_submodules_are_imported_only_when_asked_for() -> None:
    run = python(
        """
        import sys
        from skate import compat
        compat.install()
        before = set(sys.modules)
        import ray
        print("skate.util.queue" in sys.modules)
        import ray.util.queue
        print("skate.util.queue" in sys.modules)
        """
    )
    assert run.stdout.split() == ["False", "True"], run.stderr


def test_installing_twice_changes_nothing(installed: None) -> None:
    finders = list(sys.meta_path)
    compat.install()
    assert sys.meta_path == finders


def test_it_is_handed_down_to_child_processes_by_the_environment(installed: None) -> None:
    assert os.environ[compat.ENVIRONMENT_VARIABLE] == "1"


def test_a_child_process_installs_what_it_inherited() -> None:
    run = python(
        """
        import os
        os.environ["SKATE_COMPAT"] = "1"
        from skate import compat
        compat.install_if_inherited()
        import ray, skate
        print(ray is skate)
        """
    )
    assert run.stdout.strip() == "True", run.stderr


def test_a_child_process_that_inherited_nothing_is_left_alone() -> None:
    run = python("from skate import compat; compat.install_if_inherited(); print(compat.is_installed())")
    assert run.stdout.strip() == "False", run.stderr


def test_uninstalling_gives_the_name_back() -> None:
    run = python(
        """
        import os, sys
        from skate import compat
        before = list(sys.meta_path)
        compat.install()
        import ray, ray.util
        compat.uninstall()
        assert sys.meta_path == before
        assert "SKATE_COMPAT" not in os.environ
        left = [name for name in sys.modules if name.split(".")[0] == "ray"]
        print(left, "skate.util" in sys.modules)
        """
    )
    assert run.stdout.strip() == "[] True", run.stderr


class TestBesideRealRay:
    """A package named ray on sys.path, as real Ray would be."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        package = tmp_path / "ray"
        (package / "tune").mkdir(parents=True)
        (package / "__init__.py").write_text("real = True\n")
        (package / "tune" / "__init__.py").write_text("real = True\n")
        return str(tmp_path)

    def test_skate_is_found_first(self, place: str) -> None:
        run = python(
            "from skate import compat; compat.install(); import ray; print(ray.__name__)", path=place
        )
        assert run.stdout.strip() == "skate", run.stderr

    def test_a_module_that_skate_lacks_is_not_taken_from_real_ray(self, place: str) -> None:
        run = python("from skate import compat; compat.install(); import ray.autoscaler_v7", path=place)
        assert "Skate has no ray.autoscaler_v7" in run.stderr

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_processes_that_multiprocessing_starts_find_skate(self, method: str, place: str) -> None:
        code = f"""
        from multiprocessing import get_context
        from skate import compat

        compat.install()
        with get_context({method!r}).Pool(1) as pool:
            print(pool.apply(eval, ("__import__('ray.util').util.__name__",)))
        """
        run = python(code, path=place)
        assert run.stdout.strip() == "skate.util", run.stderr

    def test_real_ray_comes_back_after_uninstalling(self, place: str) -> None:
        code = """
        from skate import compat
        compat.install()
        import ray
        compat.uninstall()
        import ray
        print(ray.real)
        """
        run = python(code, path=place)
        assert run.stdout.strip() == "True", run.stderr

    def test_real_ray_imported_earlier_is_refused_with_the_place_and_the_remedy(self, place: str) -> None:
        run = python("import ray; from skate import compat; compat.install()", path=place)
        assert "ImportError: ray is already imported" in run.stderr
        assert place in run.stderr
        assert "before the first import of ray" in run.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.not_there",
        "from ray import not_there",
        "from ray.not_there import anything",
        "import ray.not_there.deep",
    ],
)
def test_a_module_that_skate_lacks_is_named_with_what_there_is(installed: None, statement: str) -> None:
    with pytest.raises(
        ImportError, match=r"Skate has no ray\.not_there.*ray\.exceptions.*ray\.util"
    ) as caught:
        exec(statement, {})
    assert "skate." not in str(caught.value), "the program says ray, so the message does too"


def test_a_missing_name_below_a_package_lists_that_package(installed: None) -> None:
    with pytest.raises(ImportError, match=r"Skate has no ray\.util\.not_there.*ray\.util\.queue"):
        importlib.import_module("ray.util.not_there")


def test_rays_internal_modules_are_refused_as_such(installed: None) -> None:
    with pytest.raises(ModuleNotFoundError, match="internal module of Ray,"):
        importlib.import_module("ray._private.nothing")


@pytest.mark.parametrize("name", ["core", "client", "wire", "node", "simulation", "command"])
def test_skates_engine_room_has_no_ray_name(installed: None, name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"Skate has no ray\.{name};"):
        importlib.import_module(f"ray.{name}")


def test_a_fault_inside_a_skate_module_is_not_reported_as_its_absence(tmp_path: Path) -> None:
    run = python(
        f"""
        import skate
        skate.__path__.append({str(tmp_path)!r})
        open({str(tmp_path / "broken.py")!r}, "w").write("import a_package_that_is_missing")
        from skate import compat
        compat.install()
        import ray.broken
        """
    )
    assert "No module named 'a_package_that_is_missing'" in run.stderr
    assert "Skate has no ray.broken" not in run.stderr


def test_asking_whether_a_module_exists_answers_for_those_that_do(installed: None) -> None:
    assert importlib.util.find_spec("ray.util.queue") is not None


def test_every_import_path_of_the_table_leads_to_its_names() -> None:
    run = python(
        """
        import importlib
        from skate import compat, import_paths
        compat.install()
        for name, entry in import_paths.TABLE.items():
            module = importlib.import_module(f"ray.{name}")
            assert importlib.import_module(f"ray.{name}") is module
            for names in {} if isinstance(entry, str) else entry.values():
                for each in names:
                    try:
                        getattr(module, each)
                    except ModuleNotFoundError as error:
                        assert not error.name.startswith("skate"), (name, each, error)
        print("all")
        """
    )
    assert run.stdout.strip() == "all", run.stderr


def test_a_module_without_a_file_is_found_under_both_names() -> None:
    run = python(
        """
        import importlib.util, pickle, sys
        import skate.tune.syncer, skate.experimental.state.api
        from skate import compat, remote_function
        assert importlib.util.find_spec("skate.tune.syncer") and importlib.util.find_spec("skate.tune.tune_config")
        assert not importlib.util.find_spec("skate.tune.nothing")
        assert skate.experimental.state.api is importlib.import_module("skate.util.state.api")
        from skate._private.worker import global_worker
        compat.install()
        import ray.tune.syncer
        from ray.worker import global_worker as older
        assert ray.tune.syncer is skate.tune.syncer and older is global_worker
        def named(module, name):
            return pickle.loads(f"c{module}\\n{name}\\n.".encode())
        assert named("skate.tune.syncer", "SyncConfig") is named("ray.tune", "SyncConfig")
        assert named("ray.remote_function", "RemoteFunction") is remote_function.RemoteFunction
        named("ray.air.util.tensor_extensions.arrow", "ArrowTensorType")
        print("found")
        """
    )
    assert run.stdout.strip() == "found", run.stderr


def test_an_absent_private_name_is_named_with_those_that_there_are(installed: None) -> None:
    services = importlib.import_module("ray._private.services")
    with pytest.raises(
        AttributeError, match=r"'ray\._private\.services' has no attribute 'x'.*get_node_ip_address"
    ):
        _ = services.x
