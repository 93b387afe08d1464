"""Shared fixtures of the tests of runtime environments: handmade wheels, and a private cache."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skate.runtime_env import cache as caches
from skate.runtime_env.cache import Cache

MakeWheel = Callable[..., Path]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    found = caches.at(tmp_path / "cache")
    yield found
    found.close()


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """A wheel with one module, whose VALUE is its version; no build tool and no network needed."""

    def make(name: str, version: str = "1.0", requires: str = "") -> Path:
        wheels = tmp_path / "wheels"
        wheels.mkdir(exist_ok=True)
        path = wheels / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        if requires:
            metadata += f"Requires-Dist: {requires}\n"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{name}.py", f"VALUE = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return path

    return make
