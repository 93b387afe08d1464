"""RuntimeEnv and RuntimeEnvConfig, the public classes."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path

import pytest

from skate.runtime_env import RuntimeEnv, RuntimeEnvConfig


def test_it_is_a_dict_of_what_was_given() -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, working_dir=".", pip=None)
    assert isinstance(env, dict)
    assert env == {"env_vars": {"A": "1"}, "working_dir": "."}
    assert dict(**env) == env.to_dict() == dict(env)


def test_the_signatures_are_those_of_ray() -> None:
    assert list(inspect.signature(RuntimeEnv).parameters) == [
        *("py_modules", "py_executable", "working_dir", "pip", "conda", "container", "env_vars"),
        *("worker_process_setup_hook", "nsight", "rocprof_sys", "config", "_validate", "image_uri", "uv"),
        "kwargs",
    ]
    config = inspect.signature(RuntimeEnvConfig).parameters
    defaults = {name: parameter.default for name, parameter in config.items()}
    assert defaults == {"setup_timeout_seconds": 600, "eager_install": True, "log_files": None}


def test_profilers_are_kept_under_rays_names() -> None:
    env = RuntimeEnv(nsight="default", rocprof_sys={"env": {"A": "1"}})
    assert env == {"_nsight": "default", "_rocprof_sys": {"env": {"A": "1"}}}
    assert (env.nsight(), env.rocprof_sys()) == ("default", {"env": {"A": "1"}})


def test_what_is_put_in_later_is_checked_as_well() -> None:
    env = RuntimeEnv(pip=["a"])
    env["env_vars"] = {"A": "1"}
    env.set("pip", ["b"])
    assert env == {"pip": {"packages": ["b"], "pip_check": False}, "env_vars": {"A": "1"}}
    with pytest.raises(TypeError, match="env_vars"):
        env["env_vars"] = {"A": 1}
    with pytest.raises(ValueError, match="did you mean 'env_vars'"):
        env["envvars"] = {}
    env["pip"] = None
    assert "pip" not in env


def test_without_validation_anything_goes() -> None:
    assert RuntimeEnv(_validate=False, pip=3, other=4) == {"pip": 3, "other": 4}


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValueError, match=r"RuntimeEnv\(\): runtime_env has the unknown field 'envvars'"):
        RuntimeEnv(envvars={})


def test_the_accessors_answer_for_what_is_there_and_what_is_not() -> None:
    env = RuntimeEnv(pip=["a"], env_vars={"A": "1"}, working_dir=".", py_modules=["."])
    assert env.pip_config() == {"packages": ["a"], "pip_check": False}
    assert (env.working_dir(), env.env_vars(), env.py_modules()) == (".", {"A": "1"}, ["."])
    assert (env.has_pip(), env.has_uv(), env.has_conda(), env.has_working_dir()) == (True, False, False, True)
    empty = RuntimeEnv()
    assert (empty.working_dir(), empty.env_vars(), empty.py_modules(), empty.uv_config()) == ("", {}, [], {})
    assert (empty.py_executable(), empty.image_uri(), empty.java_jars()) == (None, None, [])
    assert (empty.has_py_container(), empty.py_container_image()) == (False, None)
    assert RuntimeEnv(container={"image": "x"}).py_container_image() == "x"
    assert RuntimeEnv(conda="x").conda_env_name() == "x"
    assert json.loads(RuntimeEnv(conda={"a": 1}).conda_config() or "") == {"a": 1}


def test_get_takes_a_class_for_the_value() -> None:
    env = RuntimeEnv(config={"setup_timeout_seconds": 5})
    config = env.get("config", data_class=RuntimeEnvConfig)
    assert isinstance(config, RuntimeEnvConfig)
    assert config["setup_timeout_seconds"] == 5
    assert env.get("pip", "none") == "none"


def test_it_survives_json_and_pickle_without_being_checked_again(tmp_path: Path) -> None:
    folder = tmp_path / "soon_gone"
    folder.mkdir()
    env = RuntimeEnv(working_dir=str(folder), env_vars={"B": "2", "A": "1"}, config={"log_files": ["x"]})
    folder.rmdir()
    for copy in (RuntimeEnv.deserialize(env.serialize()), pickle.loads(pickle.dumps(env))):
        assert type(copy) is RuntimeEnv
        assert copy == env
    assert RuntimeEnv(env_vars={"A": "1", "B": "2"}).serialize() == '{"env_vars": {"A": "1", "B": "2"}}'


def test_a_hook_is_pickled_into_the_json() -> None:
    assert json.loads(RuntimeEnv(worker_process_setup_hook=len).serialize())["worker_process_setup_hook"]


def test_config_is_a_dict_with_all_its_fields() -> None:
    assert RuntimeEnvConfig(5) == {"setup_timeout_seconds": 5, "eager_install": True, "log_files": []}
    assert RuntimeEnvConfig.default_config()["setup_timeout_seconds"] == 600
    assert RuntimeEnvConfig(setup_timeout_seconds=-1).to_dict()["setup_timeout_seconds"] == -1
    copy = pickle.loads(pickle.dumps(RuntimeEnvConfig(7)))
    assert (type(copy), copy) == (RuntimeEnvConfig, RuntimeEnvConfig(7))
    parsed = RuntimeEnvConfig.parse_and_validate_runtime_env_config({"eager_install": False})
    assert parsed == {"setup_timeout_seconds": 600, "eager_install": False, "log_files": []}
    assert RuntimeEnv(config=RuntimeEnvConfig(8)).to_dict()["config"]["setup_timeout_seconds"] == 8


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"setup_timeout_seconds": "x"}, TypeError),
        ({"setup_timeout_seconds": 0}, ValueError),
        ({"eager_install": "no"}, TypeError),
        ({"log_files": "x"}, TypeError),
        ({"log_files": ["x", 1]}, TypeError),
    ],
)
def test_config_refuses_what_it_cannot_use(fields: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match="runtime_env\\['config'\\]"):
        RuntimeEnvConfig(**fields)  # type: ignore[arg-type]
