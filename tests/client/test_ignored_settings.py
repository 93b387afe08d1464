"""Settings of `init` without effect warn once; those of the log lines work."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate.client.session import ignored_settings
from skate.client.session.logging_level import HANDLER


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ignored_settings, "_warned", set())
    yield
    for name in ("skate", "ray"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        logger.handlers = [each for each in logger.handlers if each.name != HANDLER]


@pytest.mark.parametrize(
    "setting",
    [
        {"enable_resource_isolation": True},
        {"proxy_server_url": "http://proxy"},
        {"_plasma_directory": "/dev/shm"},
    ],
)
def test_a_setting_without_effect_warns_once(setting: dict[str, object]) -> None:
    (name,) = setting
    with pytest.warns(UserWarning, match=name) as caught:
        skate.init(local_mode=True, **setting)
    skate.shutdown()
    assert caught[0].filename == __file__
    skate.init(local_mode=True, **setting)
    skate.shutdown()


def with_variable(runtime_env: dict[str, Any] | None) -> dict[str, Any]:
    return {"env_vars": {**(runtime_env or {}).get("env_vars", {}), "OF_THE_HOOK": "1"}}


def test_a_hook_changes_the_runtime_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", f"{__name__}.with_variable")
    for settings, expected in (
        ({}, {"env_vars": {"OF_THE_HOOK": "1"}}),
        ({"runtime_env": {"env_vars": {"OWN": "2"}}}, {"env_vars": {"OWN": "2", "OF_THE_HOOK": "1"}}),
        ({"_skip_env_hook": True}, {}),
    ):
        skate.init(local_mode=True, **settings)
        assert skate.get_runtime_context().runtime_env == expected
        skate.shutdown()


def test_settings_that_request_nothing_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skate.init(
            local_mode=True,
            include_dashboard=False,
            logging_config=None,
            _temp_dir=None,
            _redis_password=None,
        )
    skate.shutdown()


def test_level_and_format_of_the_loggers() -> None:
    skate.init(local_mode=True, logging_level="error", logging_format="<%(message)s>")
    skate.shutdown()
    for name in ("skate", "ray"):
        logger = logging.getLogger(name)
        (handler,) = [each for each in logger.handlers if each.name == HANDLER]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream := io.StringIO())
        logging.getLogger(f"{name}.part").warning("left out")
        logging.getLogger(f"{name}.part").error("shown")
        assert stream.getvalue() == "<shown>\n"


def test_the_loggers_are_left_alone_on_request() -> None:
    skate.init(local_mode=True, configure_logging=False, logging_level="error")
    skate.shutdown()
    assert logging.getLogger("skate").level == logging.NOTSET
