"""Conda environments, with a stand-in for conda where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.cache import Cache
from skate.runtime_env.prepare import Prepared, prepare, validate

# Answers as conda does to the two things it is asked.
STAND_IN = """#!{python}
import json, os, sys
if sys.argv[1:3] == ["env", "list"]:
    print(json.dumps({{"envs": ["{root}/base", "{root}/envs/mine", "{root}/envs/bare"]}}))
elif sys.argv[1:3] == ["env", "create"]:
    prefix, file = sys.argv[sys.argv.index("--prefix") + 1], sys.argv[sys.argv.index("--file") + 1]
    wanted = json.load(open(file))["dependencies"]
    if "broken" in wanted:
        sys.exit("PackagesNotFoundError: broken")
    os.makedirs(prefix + "/lib/" + wanted[0] + "/site-packages")
"""


def prepared(cache: Cache, conda: Any) -> Prepared:
    return prepare(validate({"conda": conda, "env_vars": {"A": "1"}}, where="init()"), cache.root)


@pytest.fixture
def conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, code in {"mine": "exit 0", "bare": "echo no module named skate >&2; exit 1"}.items():
        folder = tmp_path / "envs" / name / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text(f"#!/bin/sh\n{code}\n")
        (folder / "python").chmod(0o755)
    command = tmp_path / "conda"
    command.write_text(STAND_IN.format(python=sys.executable, root=tmp_path))
    command.chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(command))
    return tmp_path


def test_without_conda_it_is_an_error(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeEnvSetupError, match=r"needs the command conda.*'pip'"):
        prepared(cache, "mine")


def test_a_named_environment_is_used_where_it_is(cache: Cache, conda: Path) -> None:
    found = prepared(cache, "mine")
    assert found.python == str(conda / "envs/mine/bin/python")
    assert found.env_vars["CONDA_PREFIX"] == str(conda / "envs/mine")
    assert found.env_vars["PATH"].startswith(str(conda / "envs/mine/bin") + os.pathsep)
    assert "VIRTUAL_ENV" not in found.env_vars
    assert found.entries == ()


def test_a_name_that_conda_does_not_know(cache: Cache, conda: Path) -> None:
    with pytest.raises(RuntimeEnvSetupError, match=r"no such environment \(it has: bare, base, mine\)"):
        prepared(cache, "other")


def test_an_environment_without_skate(cache: Cache, conda: Path) -> None:
    with pytest.raises(RuntimeEnvSetupError, match="bare cannot import skate.*no module named skate"):
        prepared(cache, "bare")


def test_a_described_environment_is_built_once_and_can_reach_the_node(cache: Cache, conda: Path) -> None:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = prepared(cache, {"dependencies": [version]})
    [built] = found.entries
    assert found.python == str(built / "bin" / "python")
    assert (built / "lib" / version / "site-packages" / "_skate_parent.pth").exists()
    (conda / "conda").unlink()
    assert prepared(cache, {"dependencies": [version]}).python == found.python


def test_another_python_than_the_nodes_is_refused(cache: Cache, conda: Path) -> None:
    with pytest.raises(RuntimeEnvSetupError, match=r"does not have python3\.\d+, the version of the node"):
        prepared(cache, {"dependencies": ["python2.7"]})


def test_a_failure_of_conda_is_told(cache: Cache, conda: Path, tmp_path: Path) -> None:
    file = tmp_path / "env.yml"
    file.write_text('{"dependencies": ["broken"]}')
    with pytest.raises(
        RuntimeEnvSetupError, match=r"building the conda environment failed(.|\n)*PackagesNotFound"
    ):
        prepared(cache, str(file))
    assert cache.in_use() == []
