"""Equal keys for environments that set up the same worker, different ones otherwise."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.runtime_env.identity import env_key
from skate.runtime_env.resolve import validate

ENVS = st.fixed_dictionaries(
    {},
    optional={
        "env_vars": st.dictionaries(st.text("AB", min_size=1), st.text("xy$", max_size=2), min_size=1),
        "pip": st.lists(st.sampled_from(["numpy", "flask", "rich"]), min_size=1, unique=True),
        "py_executable": st.sampled_from(["python", "python -O"]),
        "working_dir": st.sampled_from(["s3://b/a.zip", "s3://b/b.zip"]),
    },
)


def key(**fields: Any) -> str:
    return env_key(validate(fields, where="init()"))


@pytest.mark.parametrize("env", [None, {}, {"config": {"eager_install": True}}, {"excludes": ["x"]}])
def test_what_asks_for_nothing_has_the_empty_key(env: dict[str, Any] | None) -> None:
    assert env_key(env) == ""


@given(ENVS, ENVS)
def test_equal_environments_have_equal_keys_and_others_do_not(
    one: dict[str, Any], two: dict[str, Any]
) -> None:
    same = validate(one, where="") == validate(two, where="")
    assert (key(**one) == key(**two)) == same


@given(ENVS.flatmap(lambda env: st.tuples(st.just(env), st.permutations(list(env)))))
def test_the_order_of_fields_does_not_count(case: tuple[dict[str, Any], list[str]]) -> None:
    env, order = case
    assert key(**{name: env[name] for name in order}) == key(**env)


def test_the_order_of_variables_counts_only_where_one_may_stand_in_another() -> None:
    assert key(env_vars={"A": "1", "B": "2"}) == key(env_vars={"B": "2", "A": "1"})
    assert key(env_vars={"A": "1", "B": "${A}"}) != key(env_vars={"B": "${A}", "A": "1"})


def test_how_it_is_set_up_does_not_count() -> None:
    assert key(pip=["a"], config={"setup_timeout_seconds": 5}) == key(pip=["a"])


def test_folders_count_by_their_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (one / "a.py").write_text("1")
    shutil.copytree(one, two)
    assert key(working_dir=str(one)) == key(working_dir=str(two))
    (two / "a.py").write_text("2")
    assert key(working_dir=str(one)) != key(working_dir=str(two))
    (two / "a.py").write_text("1")
    (two / "data.bin").write_text("1")
    assert key(working_dir=str(one)) != key(working_dir=str(two))
    assert key(working_dir=str(one)) == key(working_dir=str(two), excludes=["data.bin"])


def test_modules_count_by_name_contents_and_order(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    # Ray takes these for one and the same package, since it hashes what is in them alone.
    assert key(py_modules=[one]) != key(py_modules=[two])
    assert key(py_modules=[one, two]) != key(py_modules=[two, one])
    before = key(py_modules=[one])
    (tmp_path / "one" / "more.py").write_text("")
    assert key(py_modules=[one]) != before


def test_local_requirements_count_by_their_contents(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text("1")
    wheel.write_text("1")
    fields: dict[str, Any] = {"pip": [str(wheel), f"-e {project}"]}
    before = key(**fields)
    wheel.write_text("2")
    between = key(**fields)
    (project / "setup.py").write_text("2")
    assert len({before, between, key(**fields)}) == 3


def test_files_for_conda_count_by_their_contents(tmp_path: Path) -> None:
    file = tmp_path / "env.yml"
    file.write_text("dependencies: [a]")
    before = key(conda=str(file))
    file.write_text("dependencies: [b]")
    assert key(conda=str(file)) != before


def test_a_large_folder_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.py"
        path.write_text(str(number))
        os.utime(path, (1, 1))
    first = key(working_dir=str(tmp_path))

    def unreadable(*_args: object) -> None:
        raise AssertionError("a file that did not change was read again")

    monkeypatch.setattr("skate.runtime_env.package._opened", unreadable)
    assert key(working_dir=str(tmp_path)) == first
