"""Programs of a cluster whose nodes share no folders: working directories, modules and packages reach every node."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skate.node.driver import address
from skate.runtime_env.package_store import PackageStore
from tests.process.programs import Program
from tests.process.standing import Node
from tests.process.test_standing_clusters import HEAD_IP, MEMBER_IP, Pair

pytest.importorskip("distributed")
pytest.importorskip("cryptography")


class Apart(Node):
    """A node with a cache of its own, as on another machine."""

    @property
    def cache(self) -> Path:
        return self.folder.with_name(f"cache-{self.folder.name}")

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "SKATE_CACHE_DIR": str(self.cache)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    made = Pair(folder)
    made.head, made.member = Apart(folder / "head"), Apart(folder / "member")
    made.start()
    yield made
    made.member.kill()
    made.head.kill()


PROJECT = """
    import os, pathlib, shutil, sys

    pathlib.Path("project/inner").mkdir(parents=True)
    pathlib.Path("project/settings.txt").write_text("blue")
    pathlib.Path("project/inner/__init__.py").write_text("COLOUR = open('settings.txt').read()")
    pathlib.Path("project/large.bin").write_bytes(os.urandom(3_000_000))
    pathlib.Path("single.py").write_text("NAME = 'single'")
    pathlib.Path("whole").mkdir()
    pathlib.Path("whole/__init__.py").write_text("NAME = 'whole'")
    import whole

    HEAD, MEMBER = "127.0.0.1", "127.0.0.2"

    def on(ip):
        return {f"node:{ip}": 0.001}

    @ray.remote(num_cpus=0)
    def look():
        import inner, single, whole
        size = os.path.getsize("large.bin")
        return inner.COLOUR, single.NAME, whole.NAME, size, inner.__file__, ray.util.get_node_ip_address()
"""


def test_folders_of_a_driver_reach_every_node(pair: Pair, program: Callable[..., Program]) -> None:
    text = (
        PROJECT
        + """
    ray.init(runtime_env={"working_dir": "project", "py_modules": [whole, "single.py"]})
    # From here on, the driver's folders are of no use to anyone.
    for name in ("project", "whole"):
        shutil.rmtree(name)
    os.remove("single.py")

    @ray.remote(num_cpus=0)
    def nested():
        pathlib.Path("/tmp/own-" + str(os.getpid())).mkdir()
        own = pathlib.Path("/tmp/own-" + str(os.getpid()))
        (own / "made_here.py").write_text("PLACE = 'member'")
        try:
            there = uses_own.options(runtime_env={"working_dir": str(own)}, resources=on(HEAD)).remote()
            return ray.get([look.options(resources=on(HEAD)).remote(), there])
        finally:
            shutil.rmtree(own)

    @ray.remote(num_cpus=0)
    def uses_own():
        import made_here
        return made_here.PLACE

    for ip, cache in ((MEMBER, "cache-member"), (HEAD, "cache-head")):
        *found, path, place = ray.get(look.options(resources=on(ip)).remote())
        assert found == ["blue", "single", "whole", 3_000_000] and place == ip, (found, place)
        assert f"/{cache}/" in path, path
    (*found, path, place), own = ray.get(nested.options(resources=on(MEMBER)).remote())
    assert found == ["blue", "single", "whole", 3_000_000] and place == HEAD and own == "member"
    assert ray.get_runtime_context().runtime_env["working_dir"].startswith("gcs://_ray_pkg_")
    """
    )
    driver = program(text, **pair.head.environment)
    assert driver.end() == 0, driver.story()
    assert isinstance(pair.member, Apart)
    packages = list((pair.member.cache / "runtime_env" / "packages").glob("*.zip"))
    assert len(packages) == 4, packages


def test_a_node_installs_packages_itself_and_names_itself_when_it_fails(
    pair: Pair, program: Callable[..., Program]
) -> None:
    text = (
        PROJECT
        + """
    import zipfile
    name = "tiny_there-1.5-py3-none-any.whl"
    with zipfile.ZipFile(name, "w") as wheel:
        info = "tiny_there-1.5.dist-info"
        wheel.writestr("tiny_there.py", "VALUE = 1.5")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny_there\\nVersion: 1.5\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    ray.init()

    @ray.remote(num_cpus=0, resources=on(MEMBER))
    def installed():
        import tiny_there
        return tiny_there.VALUE, tiny_there.__file__

    def pip(*packages):
        return {"pip": {"packages": list(packages), "pip_install_options": ["--no-index"]}}

    value, path = ray.get(installed.options(runtime_env=pip(os.path.abspath(name))).remote())
    assert value == 1.5 and "/cache-member/" in path, path
    for env in (pip("no-such-package-there"), {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}):
        try:
            ray.get(installed.options(runtime_env=env).remote())
        except ray.exceptions.RuntimeEnvSetupError as error:
            print("error", " ".join(str(error).split()), flush=True)
    """
    )
    driver = program(text, **pair.head.environment)
    assert driver.end() == 0, driver.story()
    first, second = [line for line in driver.lines if line.startswith("error")]
    assert f"on the node at {MEMBER_IP} (" in first and "no-such-package-there" in first
    assert f"on the node at {MEMBER_IP} (" in second and f"(asked: {HEAD_IP})" in second


def test_an_uploaded_package_reaches_every_node(
    pair: Pair, program: Callable[..., Program], tmp_path: Path
) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "uploaded.py").write_text("VALUE = 7")
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "module"))
    session_folder = address.session_folder(address.path_for(str(pair.head.folder), pair.head.pid))
    assert session_folder is not None
    PackageStore(session_folder).put("_ray_pkg_0f1e2d3c4b5a6978.zip", [archive.read_bytes()])
    text = """
    ray.init(runtime_env={"working_dir": "gcs://_ray_pkg_0f1e2d3c4b5a6978.zip"})

    @ray.remote(num_cpus=0)
    def look():
        import uploaded
        return uploaded.VALUE, ray.util.get_node_ip_address()

    for ip in ("127.0.0.1", "127.0.0.2"):
        assert ray.get(look.options(resources={f"node:{ip}": 0.001}).remote()) == (7, ip)
    """
    driver = program(text, **pair.member.environment)
    assert driver.end() == 0, driver.story()
