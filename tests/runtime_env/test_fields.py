"""Valid values of each field, and the rejection of others."""

from __future__ import annotations

import calendar
import json
import os
import pathlib
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.runtime_env import RuntimeEnv, RuntimeEnvConfig, hooks
from skate.runtime_env.resolve import validate


def checked(**fields: Any) -> dict[str, Any]:
    return validate(fields, where="init()")


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "module.py").write_text("")
    (tmp_path / "archive.zip").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "req.txt").write_text("# a comment\nrequests==2.32.3  # why\n\nflask\n")


WRONG_TYPES = [
    ("pip", 1, "runtime_env['pip'] must be a list of requirements"),
    ("pip", ("a",), "but got tuple"),
    ("pip", [1], "runtime_env['pip']['packages'][0] must be a requirement"),
    ("pip", {"packages": ["a"], "pip_check": 1}, "['pip_check'] must be True or False, but got int"),
    ("pip", {"packages": ["a"], "pip_version": 24}, "['pip_version'] must be a version specifier"),
    ("pip", {"packages": ["a"], "pip_install_options": "-v"}, "['pip_install_options'] must be a list"),
    ("uv", 1, "runtime_env['uv'] must be a list of requirements"),
    ("uv", {"packages": ["a"], "uv_check": "no"}, "['uv_check'] must be True or False, but got str"),
    ("uv", {"packages": ["a"], "uv_pip_install_options": [1]}, "['uv_pip_install_options']"),
    ("conda", 1, "runtime_env['conda'] must be the name of a conda environment"),
    ("env_vars", ["a"], "runtime_env['env_vars'] must be of type Dict[str, str], but got list"),
    ("env_vars", {"A": 1}, "runtime_env['env_vars']['A'] must be a str, but got int"),
    ("env_vars", {1: "a"}, "the key 1 is int"),
    ("working_dir", 1, "runtime_env['working_dir'] must be a folder"),
    ("py_modules", "x", "runtime_env['py_modules'] must be a list"),
    ("py_modules", [1], "runtime_env['py_modules'][0] must be a folder"),
    ("excludes", "x", "runtime_env['excludes'] must be a list of patterns"),
    ("excludes", [1], "runtime_env['excludes'] must be a list of patterns"),
    ("py_executable", 1, "runtime_env['py_executable'] must be a command"),
    ("worker_process_setup_hook", 1, "must be a function, or its name"),
    ("container", "image", "runtime_env['container'] must be a dict"),
    ("image_uri", 1, "runtime_env['image_uri'] must be the name of a container image"),
    ("java_jars", "x", "runtime_env['java_jars'] must be a list"),
    ("nsight", 1, "must be 'default' or a dict"),
    ("config", 1, "runtime_env['config'] must be a dict or a RuntimeEnvConfig, but got int"),
    ("config", {"setup_timeout_seconds": 1.5}, "['setup_timeout_seconds'] must be a whole number"),
    ("config", {"setup_timeout_seconds": True}, "but got bool"),
    ("config", {"eager_install": 1}, "['eager_install'] must be True or False"),
    ("config", {"log_files": "x"}, "['log_files'] must be a list of file names"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_a_type_error(field: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        checked(**{field: value})
    assert str(caught.value).startswith("init(): runtime_env[")
    assert message in str(caught.value)


WRONG_VALUES = [
    ("pip", {}, "lacks 'packages'"),
    ("pip", {"packages": ["a"], "check": True}, "did you mean 'pip_check'?"),
    ("pip", {"packages": ["a"], "pip_instal_options": []}, "did you mean 'pip_install_options'?"),
    ("pip", "missing.txt", "there is no such file"),
    ("pip", ["a", " "], "['packages'][1] is an empty requirement"),
    ("uv", "missing.txt", "there is no such file"),
    ("conda", "missing.yml", "names the conda file 'missing.yml', but there is no such file"),
    ("conda", "", "is empty"),
    ("env_vars", {"": "x"}, "not a valid name of an environment variable"),
    ("env_vars", {"A=B": "x"}, "not a valid name of an environment variable"),
    ("env_vars", {"A": "x\0y"}, "NUL"),
    ("working_dir", "missing", "missing is not a valid path: there is no such folder"),
    ("working_dir", "notes.txt", "must be a folder or a .zip file"),
    ("working_dir", "s3://bucket/x", "must name one of .zip"),
    ("working_dir", "https://host/x.whl", "must name one of .zip"),
    ("working_dir", "ftp://host/x.zip", "ftp:// is not supported"),
    ("py_modules", ["missing"], "runtime_env['py_modules'][0] is 'missing', but there is no such"),
    ("py_modules", ["notes.txt"], "must be a folder, a .py file, a .zip file or a wheel"),
    ("py_modules", ["s3://bucket/x"], "must name one of"),
    ("py_executable", " ", "is empty"),
    ("worker_process_setup_hook", "hook", "must be a full name"),
    ("config", {"setup_timeout_seconds": 0}, "must be at least 1 second"),
    ("config", {"setup_timeout_seconds": -2}, "must be at least 1 second"),
    ("config", {"timeout": 5}, "has the unknown field 'timeout'"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG_VALUES)
def test_a_value_that_cannot_be_used_is_a_value_error(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        checked(**{field: value})
    assert str(caught.value).startswith("init(): runtime_env[")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("envvars", "env_vars"),
        ("env_var", "env_vars"),
        ("envVars", "env_vars"),
        ("workingdir", "working_dir"),
        ("work_dir", "working_dir"),
        ("py_module", "py_modules"),
        ("pip_packages", None),
        ("exclude", "excludes"),
        ("setup_hook", None),
    ],
)
def test_an_unknown_field_names_the_nearest(typed: str, meant: str | None) -> None:
    with pytest.raises(ValueError, match=f"unknown field '{typed}'") as caught:
        checked(**{typed: {}})
    if meant is not None:
        assert f"did you mean '{meant}'?" in str(caught.value)


def test_an_unknown_field_like_no_other_lists_them_all() -> None:
    with pytest.raises(ValueError, match="the fields are conda, config, container, env_vars"):
        checked(zzzzzz=1)


def test_a_field_that_is_no_string_is_unknown() -> None:
    with pytest.raises(ValueError, match="unknown field 3"):
        validate({3: "x"}, where="init()")


@pytest.mark.parametrize("env", [["pip"], "pip", 3, {"pip"}])
def test_an_environment_that_is_no_dict(env: object) -> None:
    with pytest.raises(TypeError, match="task f: runtime_env must be a dict or a RuntimeEnv"):
        validate(env, where="task f")


def test_the_secret_in_a_wrong_value_is_not_shown() -> None:
    with pytest.raises(TypeError) as caught:
        checked(env_vars={"TOKEN": b"hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"pip": ["a"], "uv": ["b"]},
        {"pip": ["a"], "conda": "x"},
        {"uv": ["a"], "conda": "x"},
        {"image_uri": "x", "pip": ["a"]},
        {"container": {"image": "x"}, "working_dir": "work"},
    ],
)
def test_fields_that_exclude_each_other(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at the same time|cannot combine"):
        checked(**fields)
    with pytest.raises(ValueError, match=r"at the same time|cannot combine"):
        RuntimeEnv(**fields)


def test_an_image_may_have_variables_beside_it() -> None:
    assert checked(image_uri="x", env_vars={"A": "1"}, config={}).keys() == {
        "image_uri",
        "env_vars",
        "config",
    }


@pytest.mark.parametrize(
    "nothing", [None, {}, {"pip": None}, {"pip": []}, {"env_vars": {}}, {"working_dir": ""}]
)
def test_what_asks_for_nothing_is_nothing(nothing: dict[str, Any] | None) -> None:
    assert validate(nothing, where="init()") == {}


def test_every_form_of_pip_becomes_one(tmp_path: Path) -> None:
    normal = {"packages": ["requests==2.32.3", "flask"], "pip_check": False}
    assert checked(pip=["requests==2.32.3", "flask", "flask"])["pip"] == normal
    assert checked(pip="req.txt")["pip"] == normal
    assert checked(pip=pathlib.Path("req.txt"))["pip"] == normal
    assert checked(pip={"packages": "req.txt"})["pip"] == normal
    full = {"packages": ["a"], "pip_check": True, "pip_version": "==24.0", "pip_install_options": ["-v"]}
    assert checked(pip=full)["pip"] == full


def test_every_form_of_uv_becomes_one() -> None:
    normal = {"packages": ["requests==2.32.3", "flask"], "uv_check": False}
    assert checked(uv=["requests==2.32.3", "flask"])["uv"] == normal
    assert checked(uv="req.txt")["uv"] == normal
    full = {"packages": ["a"], "uv_check": True, "uv_version": "==0.5", "uv_pip_install_options": ["-v"]}
    assert checked(uv=full)["uv"] == full


def test_paths_become_absolute(tmp_path: Path) -> None:
    done = checked(working_dir="work", py_modules=["work", "module.py"], config={"log_files": ["log"]})
    assert done["working_dir"] == str(tmp_path / "work")
    assert done["py_modules"] == [str(tmp_path / "work"), str(tmp_path / "module.py")]
    assert done["config"]["log_files"] == [str(tmp_path / "log")]
    assert checked(working_dir=pathlib.Path("archive.zip"))["working_dir"] == str(tmp_path / "archive.zip")


def test_imported_modules_become_their_files() -> None:
    done = checked(py_modules=[json, calendar, numpy])["py_modules"]
    assert done == [str(Path(json.__file__).parent), calendar.__file__, str(Path(numpy.__file__).parent)]


def test_a_module_without_a_file_is_refused() -> None:
    with pytest.raises(ValueError, match="the module sys, which has no file"):
        checked(py_modules=[sys])


@pytest.mark.parametrize(
    "uri", ["s3://b/x.zip", "https://h/x.zip?signed=1", "file:///x.tar.gz", "local:///any"]
)
def test_uris_stay_as_they_are(uri: str) -> None:
    assert checked(working_dir=uri, py_modules=[uri]) == {"working_dir": uri, "py_modules": [uri]}


def test_local_requirements_become_absolute_and_others_stay(tmp_path: Path) -> None:
    lines = ["./pkg", "-e ../other", "wheel-1.0.whl", "numpy", "a @ https://h/a.whl", "-r req.txt", "-v"]
    assert checked(pip=lines)["pip"]["packages"] == [
        str(tmp_path / "pkg"),
        f"-e {tmp_path / '../other'}".replace(f"{tmp_path.name}/../", ""),
        str(tmp_path / "wheel-1.0.whl"),
        "numpy",
        "a @ https://h/a.whl",
        f"-r {tmp_path / 'req.txt'}",
        "-v",
    ]


def test_a_requirements_file_may_include_others(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.txt").write_text("-c limits.txt\n./local\nnumpy \\\n  >=1\n")
    (tmp_path / "req.txt").write_text("flask\n-r deep/more.txt\n")
    deep = tmp_path / "deep"
    wanted = ["flask", f"-c {deep / 'limits.txt'}", str(deep / "local"), "numpy   >=1"]
    assert checked(pip="req.txt")["pip"]["packages"] == wanted


def test_requirements_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt\n")
    (tmp_path / "b.txt").write_text("--requirement a.txt\n")
    with pytest.raises(ValueError, match="includes itself"):
        checked(pip="a.txt")


def test_a_requirements_file_that_includes_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt\n")
    with pytest.raises(ValueError, match="b.txt .from .*a.txt., but there is no such file"):
        checked(pip="a.txt")


def test_a_function_as_hook_travels_as_text_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKED", "no")
    word = "yes"

    def hook() -> None:
        os.environ["HOOKED"] = word

    text = checked(worker_process_setup_hook=hook)["worker_process_setup_hook"]
    assert json.loads(json.dumps(text)) == text
    travelling = hooks.travelling(text)
    assert isinstance(travelling, bytes)
    hooks.run(travelling)
    assert os.environ["HOOKED"] == "yes"


def test_a_hook_by_name_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hooked.py").write_text("import os\ndef go():\n    os.environ['HOOKED'] = 'yes'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HOOKED", "no")
    hook = hooks.travelling(checked(worker_process_setup_hook="hooked.go")["worker_process_setup_hook"])
    assert hook == "hooked.go"
    hooks.run(hook)
    assert os.environ["HOOKED"] == "yes"


def test_a_hook_that_cannot_be_pickled_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"worker_process_setup_hook.*can be pickled"):
        checked(worker_process_setup_hook=lambda: lock)


@given(
    st.dictionaries(
        st.text("ABC_", min_size=1, max_size=5), st.text("abc ${}", max_size=5), min_size=1, max_size=4
    )
)
def test_validation_changes_nothing_the_second_time(env_vars: dict[str, str]) -> None:
    once = checked(
        env_vars=env_vars, pip=["./x", "numpy"], working_dir=".", config={}, worker_process_setup_hook="a.b"
    )
    assert validate(once, where="again") == once
    assert json.loads(json.dumps(once)) == once


def test_the_given_environment_is_not_changed() -> None:
    env = {"pip": ["a"], "working_dir": "work", "config": RuntimeEnvConfig()}
    validate(env, where="init()")
    assert env == {"pip": ["a"], "working_dir": "work", "config": RuntimeEnvConfig()}
