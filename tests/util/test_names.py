"""The names of skate.util, and the small ones among them."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
import warnings

import pytest

from skate import util
from skate.util import annotations, debug


def test_every_name_resolves() -> None:
    for name in util.__all__:
        assert getattr(util, name) is not None, name
    assert set(util.__all__) <= set(dir(util))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = util.nothing


def test_placement_group_stays_the_function_after_its_module_is_imported() -> None:
    module = importlib.import_module("skate.util.placement_group")
    assert isinstance(module, types.ModuleType)
    assert util.placement_group is module.placement_group
    from skate.util import placement_group

    assert callable(placement_group)


def test_importing_the_package_loads_none_of_its_modules_and_graphs_do_not_load_torch() -> None:
    code = (
        "import sys, skate.util; print([name for name in sys.modules if name.startswith('skate.util.')])\n"
        "import skate.dag.compiled, skate.experimental.channel.types; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["[]", "False"]


def test_annotations_is_the_module_even_before_it_is_imported() -> None:
    code = "from skate.util import annotations; print(annotations.PublicAPI)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "PublicAPI" in done.stdout


def test_register_serializer_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match="class"):
        util.register_serializer("str", serializer=str, deserializer=str)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="deserializer"):
        util.register_serializer(int, serializer=str, deserializer=5)  # type: ignore[arg-type]


def test_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_once", debug._Once())
    now_s = 1000.0
    monkeypatch.setattr(debug.time, "monotonic", lambda: now_s)
    assert util.log_once("a") and not util.log_once("a") and util.log_once("b")
    debug.reset_log_once("a")
    assert util.log_once("a") and not util.log_once("b")
    now_s += 61
    assert not util.log_once("a")
    util.enable_periodic_logging()
    assert util.log_once("a") and not util.log_once("a")
    util.disable_log_once_globally()
    assert not util.log_once("c")


def test_the_instance_id_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_CLOUD_INSTANCE_ID", raising=False)
    assert util.get_node_instance_id() == ""
    monkeypatch.setenv("RAY_CLOUD_INSTANCE_ID", "i-123")
    assert util.get_node_instance_id() == "i-123"


def test_annotations_mark_and_leave_the_object_as_it_is() -> None:
    @annotations.PublicAPI(stability="beta")
    def public() -> int:
        """Say one."""
        return 1

    @annotations.DeveloperAPI
    class Developer:
        pass

    assert public() == 1
    assert public.__doc__ == "Say one.\n\nPublic, in beta: it may still change.\n"
    assert public._annotated_type is annotations.AnnotationType.PUBLIC_API  # type: ignore[attr-defined]
    assert Developer._annotated_type is annotations.AnnotationType.DEVELOPER_API  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="stability"):
        annotations.PublicAPI(stability="shaky")


def test_deprecated_warns_on_use_where_asked() -> None:
    @annotations.Deprecated
    def quiet() -> int:
        return 1

    @annotations.Deprecated(message="Use quiet().", warning=True)
    def loud() -> int:
        return 2

    @annotations.Deprecated(warning=True)
    class Loud:
        def __init__(self, value: int) -> None:
            self.value = value

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet() == 1
    with pytest.warns(annotations.RayDeprecationWarning, match=r"Use quiet\(\)\."):
        assert loud() == 2
    with pytest.warns(annotations.RayDeprecationWarning, match="Loud"):
        assert Loud(3).value == 3
