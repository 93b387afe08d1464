"""Randomly changed config files of Serve: each is valid, or raises a ValueError that names the file and the position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from attack.mutations import ODD, changed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.serve.config.wrong_field import WrongField
from skate.serve.config_loader import http_options, read
from skate.serve.schema import ServeDeploySchema

VALID: dict[str, Any] = {
    "proxy_location": "EveryNode",
    "http_options": {"host": "0.0.0.0", "port": 8000, "request_timeout_s": 5.0, "keep_alive_timeout_s": 30},
    "grpc_options": {"port": 9000, "grpc_servicer_functions": ["a.b:add"]},
    "logging_config": {"encoding": "JSON", "log_level": "INFO", "logs_dir": None, "enable_access_log": True},
    "tracing_config": {"enabled": False, "sampling_ratio": 0.5},
    "target_capacity": 50,
    "applications": [
        {
            "name": "one",
            "route_prefix": "/one",
            "import_path": "program:app",
            "runtime_env": {"env_vars": {"A": "1"}},
            "args": {"word": "hello", "deep": [{"a": 1}]},
            "deployments": [
                {
                    "name": "First",
                    "num_replicas": 2,
                    "max_ongoing_requests": 5,
                    "max_queued_requests": 10,
                    "user_config": {"threshold": 0.5},
                    "graceful_shutdown_timeout_s": 3,
                    "health_check_period_s": 5,
                    "ray_actor_options": {"num_cpus": 0.5, "resources": {"x": 1}, "runtime_env": {}},
                    "logging_config": {"log_level": "DEBUG"},
                    "request_router_config": {"request_router_kwargs": {"a": 1}},
                },
                {
                    "name": "Second",
                    "autoscaling_config": {
                        "min_replicas": 1,
                        "max_replicas": 4,
                        "target_ongoing_requests": 2,
                        "policy": {
                            "policy_function": "skate.serve.autoscaling_policy:default_autoscaling_policy"
                        },
                    },
                    "placement_group_bundles": [{"CPU": 1}],
                    "placement_group_strategy": "PACK",
                },
            ],
        },
        {
            "name": "two",
            "route_prefix": "/two",
            "import_path": "program.other",
            "external_scaler_enabled": True,
        },
    ],
}


def tried(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        made = read(str(path))
    except ValueError as error:
        assert str(path) in str(error)
        assert "\n  File " not in str(error)
        return
    assert isinstance(made, ServeDeploySchema)
    http_options(made)
    again = ServeDeploySchema.model_validate(made.model_dump(exclude_unset=True))
    assert again.model_dump_json() == made.model_dump_json()


def test_the_config_that_is_changed_is_one(tmp_path: Path) -> None:
    tried(tmp_path / "c.yaml", yaml.safe_dump(VALID))
    assert read(str(tmp_path / "c.yaml")).applications[0].deployments[1].name == "Second"


def check_structures(path: Path, data: Any) -> None:
    changed_config = changed(data.draw, VALID, ODD)
    tried(path, yaml.safe_dump(changed_config, allow_unicode=data.draw(st.booleans())))
    try:
        ServeDeploySchema.model_validate(changed_config)
    except WrongField as error:
        assert str(error)


def check_texts(path: Path, data: Any) -> None:
    """Change characters in the file itself: tags, anchors, tabs, broken quotes."""
    text = yaml.safe_dump(VALID)
    bits = [
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "!!timestamp ",
        "!!set ",
        "!!binary ",
        "<<: ",
        "? ",
        "\t",
        "'",
        '"',
        "{",
        "]",
    ]
    bits += [
        "---\n",
        "...\n",
        "\x00",
        "\x85",
        "\u2028",
        "%",
        "@",
        "|\n",
        "- ",
        ": ",
        "\n",
        "2001-01-01",
        "0x1F",
        ".nan",
        "12:30:45",
    ]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.sampled_from([0, 0, 1, 5])))
        text = text[:at] + data.draw(st.sampled_from(bits)) + text[end:]
    tried(path, text)


FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=1000)


@FEW
@given(data=st.data())
def test_a_changed_config_is_read_or_refused_by_its_place(tmp_path: Path, data: Any) -> None:
    check_structures(tmp_path / "c.yaml", data)


@FEW
@given(data=st.data())
def test_a_changed_text_is_read_or_refused_by_its_place(tmp_path: Path, data: Any) -> None:
    check_texts(tmp_path / "c.yaml", data)


@pytest.mark.attack
@MANY
@given(data=st.data())
def test_many_changed_configs(tmp_path: Path, data: Any) -> None:
    check_structures(tmp_path / "c.yaml", data)


@pytest.mark.attack
@MANY
@given(data=st.data())
def test_many_changed_texts(tmp_path: Path, data: Any) -> None:
    check_texts(tmp_path / "c.yaml", data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 5000,
        "applications: " + "[" * 500 + "]" * 500,
        "&a [*a]",
        "a: &a [*a, *a]\napplications: *a",
        "applications:\n- &x\n  import_path: a:b\n  args: *x\n",
        "applications: !!python/object/apply:os.system ['true']",
        b"\xff\xfe\x00".decode("latin-1"),
        "applications:\n- import_path: a:b\n  args:\n    a: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"    {b}: &{b} [{', '.join(['*' + a] * 9)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "applications: []\ntarget_capacity: 2001-13-01",
        "applications: []\ntarget_capacity: !!bool x",
        "applications: []\ntarget_capacity: !!timestamp x",
        "applications: []\ntarget_capacity: !!int ''",
        "? [a, b]\n: 1\napplications: []",
        "1: 2\napplications: []",
        "applications: []\napplications: 5",
    ],
)
def test_files_that_readers_of_yaml_stumble_over(tmp_path: Path, text: str) -> None:
    tried(tmp_path / "c.yaml", text)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"applications: \xff\xfe")
    with pytest.raises(ValueError, match=r"c\.yaml"):
        read(str(tmp_path / "c.yaml"))
    with pytest.raises(ValueError, match="cannot be read"):
        read(str(tmp_path))


@pytest.mark.parametrize("function", ["no_such_module:f", "skate.serve.autoscaling_policy:no_such_name"])
def test_a_policy_that_cannot_be_imported(tmp_path: Path, function: str) -> None:
    text = yaml.safe_dump(VALID).replace(
        "skate.serve.autoscaling_policy:default_autoscaling_policy", function
    )
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"c\.yaml.*no_such"):
        read(str(tmp_path / "c.yaml"))
