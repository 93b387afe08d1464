"""The fields of a runtime environment, validated where they are given.

A check takes the value and its Place and returns the value in normal form, or None if it requests nothing. It
reads local files only if the value names one (a requirements file). Ray ignores unknown fields; here they are
errors, because nearly all of them are typos.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from skate.runtime_env.config import parse as parse_config
from skate.runtime_env.packages.requirements import read_file
from skate.runtime_env.refusal import Place, kind, nearest, of_strings

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.xz")
# A URI of a folder that exists on every machine: used in place, never copied.
IN_PLACE = "local"
PROTOCOLS = ("https", "s3", "gs", "azure", "abfss", "hdfs", "file", "gcs", IN_PLACE)
# Fields that cannot be combined with a container image.
_BESIDE_IMAGE = frozenset({"env_vars", "config"})
_IGNORED = frozenset({"_ray_commit", "_ray_release", "_inject_current_ray"})
_ALIASES = {"nsight": "_nsight", "rocprof_sys": "_rocprof_sys"}

_URI = re.compile(r"^(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*)://")


def protocol_of(text: str) -> str | None:
    """The protocol of a URI in lower case, or None for a plain path."""
    match = _URI.match(text)
    return match["protocol"].lower() if match else None


def check(env: Any, where: str) -> dict[str, Any]:
    """Return the environment as a plain dict in normal form, without fields that request nothing.

    Raises TypeError or ValueError, naming `where` and the field, for an unknown field or an invalid value.
    """
    if env is None:
        return {}
    if not isinstance(env, dict):
        raise Place(where).wrong_type(
            "a dict or a RuntimeEnv", env, "for example {'env_vars': {'OMP_NUM_THREADS': '1'}}"
        )
    checked: dict[str, Any] = {}
    for name, value in env.items():
        done = check_field(name, value, where)
        if done is not None:
            checked[_ALIASES.get(str(name), str(name))] = done
    check_together(checked, where)
    return checked


def check_field(name: Any, value: Any, where: str) -> Any:
    """Return one field in normal form, or None if it requests nothing."""
    if not isinstance(name, str) or (name not in FIELDS and name not in _IGNORED):
        raise Place(where).refused(f"has the unknown field {name!r}", nearest(name, FIELDS))
    if value is None or name in _IGNORED:
        return value
    return FIELDS[name](value, Place(where, name))


def check_together(env: dict[str, Any], where: str) -> None:
    """Reject fields that exclude each other."""
    installers = [name for name in ("pip", "uv", "conda") if name in env]
    if len(installers) > 1:
        raise Place(where).refused(
            f"has {' and '.join(installers)}, which cannot be specified at the same time: a worker "
            "has one environment",
            "keep one of pip, uv and conda (conda can install pip packages as well)",
        )
    for image in ("image_uri", "container"):
        beside = sorted(set(env) - _BESIDE_IMAGE - _IGNORED - {image})
        if image in env and beside:
            raise Place(where).refused(
                f"cannot combine {image!r} with {', '.join(beside)}",
                "add the required files and packages to the image; only env_vars and config can be "
                "combined with it",
            )


def _env_vars(value: Any, place: Place) -> dict[str, str] | None:
    if not isinstance(value, dict):
        raise place.wrong_type("of type Dict[str, str]", value)
    for key, text in value.items():
        if not isinstance(key, str):
            raise place.wrong_type("a dict of str to str", value, f"the key {key!r} is {kind(key)}")
        if not key or "=" in key or "\0" in key:
            raise place.refused(f"has the key {key!r}, which is not a valid name of an environment variable")
        if not isinstance(text, str):
            raise (place / key).wrong_type("a str", text, "convert the value to text, for example '1' for 1")
        if "\0" in text:
            raise (place / key).refused("contains a NUL character, which environment variables do not allow")
    return dict(value) or None


def _installer(name: str) -> Callable[[Any, Place], dict[str, Any] | None]:
    """Return the check of `pip` or `uv`, which differ only in the names of their options."""
    options = f"{name}_install_options" if name == "pip" else f"{name}_pip_install_options"
    known = ("packages", f"{name}_check", f"{name}_version", options)

    def checked(value: Any, place: Place) -> dict[str, Any] | None:
        if isinstance(value, (str, os.PathLike, list)):
            value = {"packages": value}
        elif not isinstance(value, dict):
            raise place.wrong_type(
                "a list of requirements, the name of a requirements file, or a dict with 'packages'", value
            )
        for key in value:
            if key not in known:
                raise place.refused(f"has the unknown field {key!r}", nearest(key, known))
        if "packages" not in value:
            raise place.refused("lacks 'packages'", "for example {'packages': ['requests==2.32.3']}")
        done: dict[str, Any] = {
            "packages": _packages(value["packages"], place / "packages"),
            f"{name}_check": value.get(f"{name}_check", False),
        }
        if not isinstance(done[f"{name}_check"], bool):
            raise (place / f"{name}_check").wrong_type("True or False", done[f"{name}_check"])
        version = value.get(f"{name}_version")
        if version is not None:
            if not isinstance(version, str):
                advice = "for example '==24.0'"
                raise (place / f"{name}_version").wrong_type("a version specifier (str)", version, advice)
            done[f"{name}_version"] = version
        if value.get(options) is not None:
            if not of_strings(value[options]):
                raise (place / options).wrong_type(
                    "a list of command line options (list[str])", value[options]
                )
            done[options] = list(value[options])
        return done if done["packages"] else None

    return checked


def _packages(value: Any, place: Place) -> list[str]:
    if isinstance(value, (str, os.PathLike)):
        return read_file(os.fspath(value), place)
    if not isinstance(value, list):
        raise place.wrong_type("a list of requirements or the name of a requirements file", value)
    for at, item in enumerate(value):
        if not isinstance(item, str):
            raise (place / at).wrong_type("a requirement such as 'requests==2.32.3' (str)", item)
        if not item.strip():
            raise (place / at).refused("is an empty requirement")
    return list(dict.fromkeys(item.strip() for item in value))


def _conda(value: Any, place: Place) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, dict):
        return dict(value) or None
    if not isinstance(value, str):
        raise place.wrong_type("the name of a conda environment, a .yml file, or a dict", value)
    if value.endswith((".yml", ".yaml")) and not os.path.isfile(os.path.expanduser(value)):
        raise place.refused(f"names the conda file {value!r}, but there is no such file")
    if not value:
        raise place.refused("is empty", "set the name of a conda environment, or leave the field out")
    return value


def _working_dir(value: Any, place: Place) -> str | None:
    text = _path_text(value, place, "a folder, a .zip file or a URI (str)")
    if not text:
        return None
    if protocol_of(text):
        return _uri(text, place, ARCHIVES)
    path = os.path.expanduser(text)
    if os.path.isdir(path):
        return text
    if not os.path.exists(path):
        raise place.refused(
            f"is {text!r}, but {text} is not a valid path: there is no such folder (looked at {os.path.abspath(path)})",
            "use an existing folder, a .zip file or a URI",
        )
    if not text.endswith(".zip"):
        raise place.refused(f"is the file {text!r}, but must be a folder or a .zip file")
    return text


def _py_modules(value: Any, place: Place) -> list[Any] | None:
    if not isinstance(value, list):
        raise place.wrong_type("a list of folders, .py files, wheels, modules or URIs", value)
    return [_py_module(item, place / at) for at, item in enumerate(value)] or None


def _py_module(item: Any, place: Place) -> Any:
    if isinstance(item, type(os)):
        return module_path(item, place)
    text = _path_text(item, place, "a folder, a .py file, a wheel, an imported module or a URI")
    if protocol_of(text):
        return _uri(text, place, (*ARCHIVES, ".whl"))
    path = os.path.expanduser(text)
    if not text or not os.path.exists(path):
        raise place.refused(f"is {text!r}, but there is no such file or folder ({os.path.abspath(path)})")
    if not os.path.isdir(path) and not text.endswith((".py", ".whl", ".zip")):
        raise place.refused(f"is the file {text!r}, but must be a folder, a .py file, a .zip file or a wheel")
    return text


def module_path(module: Any, place: Place) -> str:
    """Return the folder or file of an imported module."""
    folders = list(getattr(module, "__path__", ()))
    if len(folders) > 1:
        raise place.refused(
            f"is the module {module.__name__}, which is spread over {len(folders)} folders",
            f"name the folders one by one: {folders}",
        )
    source = folders[0] if folders else getattr(module, "__file__", None)
    if source is None:
        raise place.refused(f"is the module {module.__name__}, which has no file: it is built into Python")
    if not os.path.isdir(source) and not source.endswith(".py"):
        raise place.refused(f"is the module {module.__name__}, whose file {source} is not Python source")
    return str(source)


def _path_text(value: Any, place: Place, wanted: str) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise place.wrong_type(wanted, value)
    return value


def _uri(text: str, place: Place, endings: tuple[str, ...]) -> str:
    protocol = protocol_of(text)
    if protocol not in PROTOCOLS:
        raise place.refused(
            f"is the URI {text!r}, but {protocol}:// is not supported",
            f"the protocols are {', '.join(PROTOCOLS)}",
        )
    path = text.split("?")[0].split("#")[0]
    if protocol != IN_PLACE and not path.endswith(endings):
        raise place.refused(f"is the URI {text!r}, but must name one of {', '.join(endings)}")
    return text


def _excludes(value: Any, place: Place) -> list[str] | None:
    if not of_strings(value):
        raise place.wrong_type(
            "a list of patterns as in .gitignore (list[str])", value, "for example ['data/', '*.ckpt']"
        )
    return list(value) or None


def _text(what: str) -> Callable[[Any, Place], str]:
    def checked(value: Any, place: Place) -> str:
        if not isinstance(value, str):
            raise place.wrong_type(f"{what} (str)", value)
        if not value.strip():
            raise place.refused("is empty", "leave the field out instead")
        return value

    return checked


def _setup_hook(value: Any, place: Place) -> Any:
    if callable(value):
        return value
    if not isinstance(value, str):
        raise place.wrong_type("a function, or its name as 'module.function'", value)
    if "." not in value.strip(".") and not value.startswith("pickle:"):
        raise place.refused(f"is {value!r}, but must be a full name such as 'my_module.my_function'")
    return value


def _container(value: Any, place: Place) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        raise place.wrong_type("a dict with 'image'", value)
    return dict(value) or None


def _java_jars(value: Any, place: Place) -> list[str] | None:
    if not of_strings(value):
        raise place.wrong_type("a list of paths or URIs (list[str])", value)
    return list(value) or None


def _profiler(value: Any, place: Place) -> Any:
    if not isinstance(value, (str, dict)):
        raise place.wrong_type("'default' or a dict of options", value)
    return value


FIELDS: dict[str, Callable[[Any, Place], Any]] = {
    "working_dir": _working_dir,
    "excludes": _excludes,
    "py_modules": _py_modules,
    "pip": _installer("pip"),
    "uv": _installer("uv"),
    "conda": _conda,
    "env_vars": _env_vars,
    "py_executable": _text("a command that starts Python"),
    "worker_process_setup_hook": _setup_hook,
    "container": _container,
    "image_uri": _text("the name of a container image"),
    "config": lambda value, place: parse_config(value, place).to_dict(),
    "java_jars": _java_jars,
    "nsight": _profiler,
    "_nsight": _profiler,
    "rocprof_sys": _profiler,
    "_rocprof_sys": _profiler,
}
