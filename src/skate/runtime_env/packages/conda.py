"""Conda environments: existing ones, by name, or new ones, from a description.

A worker has to import Skate. An environment that is built here gets access to the node's own packages, so its
Python must have the node's version. An existing one is not changed and must contain Skate.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.packages.installers import run
from skate.runtime_env.packages.virtual_environments import PARENT_PTH, log_of, parent_lines, python_of

_ASK_TIMEOUT_S = 60.0


def conda_environment(
    wanted: str | dict[str, Any],
    cache: Cache,
    env_vars: Mapping[str, str],
    deadline: Deadline,
    note: Callable[[Path], Path],
) -> Path:
    """Return the folder of a conda environment, building a described one if necessary.

    Raises RuntimeEnvSetupError if there is no conda, no environment of that name, or it cannot run Skate.
    """
    conda = os.environ.get("CONDA_EXE") or shutil.which("conda")
    if not conda:
        raise RuntimeEnvSetupError(
            "runtime_env['conda'] needs the command conda, which is not on this machine's PATH. Install conda, "
            "or request the packages with runtime_env={'pip': [...]}."
        )
    if isinstance(wanted, str) and not wanted.endswith((".yml", ".yaml")):
        return _existing(conda, wanted, deadline)
    if isinstance(wanted, str):
        description = Path(wanted).read_bytes()
    else:
        # JSON is YAML, so conda reads it.
        description = json.dumps(wanted, sort_keys=True).encode()
    return note(_built(conda, description, cache, env_vars, deadline))


def described(wanted: str) -> str | dict[str, Any]:
    """Return the contents of a .yml file, for nodes that do not have it; the name of an environment as it is."""
    if not wanted.endswith((".yml", ".yaml")):
        return wanted
    import yaml  # comes with the engine of a cluster

    try:
        with open(wanted, encoding="utf-8") as file:
            found = yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as error:
        raise RuntimeEnvSetupError(f"runtime_env['conda'] = {wanted!r} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise RuntimeEnvSetupError(f"runtime_env['conda'] = {wanted!r} describes no environment.")
    return found


def _existing(conda: str, name: str, deadline: Deadline) -> Path:
    listed = json.loads(_answer([conda, "env", "list", "--json"], deadline))["envs"]
    for folder in map(Path, listed):
        if folder.name == name or str(folder) == name:
            _can_import_skate(folder, deadline)
            return folder
    names = ", ".join(sorted(Path(folder).name for folder in listed)) or "none"
    raise RuntimeEnvSetupError(
        f"runtime_env['conda'] names the environment {name!r}, but conda has no such environment (it has: "
        f"{names})."
    )


def _can_import_skate(folder: Path, deadline: Deadline) -> None:
    try:
        _answer([str(python_of(folder)), "-c", "import skate"], deadline)
    except RuntimeEnvSetupError as error:
        raise RuntimeEnvSetupError(
            f"the conda environment {folder} cannot import skate, which its workers need. Install it there. "
            f"{error}"
        ) from error


def _answer(command: list[str], deadline: Deadline) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline.left_s(_ASK_TIMEOUT_S),
            check=True,
        )
    except subprocess.CalledProcessError as error:
        output = error.stderr.decode("utf-8", "replace").strip()
        raise RuntimeEnvSetupError(
            f"{' '.join(command)} ended with code {error.returncode}: {output}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeEnvSetupError(f"{' '.join(command)} failed: {error}") from error
    return done.stdout.decode("utf-8", "replace")


def _built(
    conda: str, description: bytes, cache: Cache, env_vars: Mapping[str, str], deadline: Deadline
) -> Path:
    parts = [description, sys.version.encode(), *(line.encode() for line in parent_lines())]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    log = log_of(cache, f"conda-{key}")

    def build(path: Path) -> None:
        log.write_bytes(b"")
        file = log.with_suffix(".yml")
        file.write_bytes(description)
        try:
            command = [conda, "env", "create", "--yes", "--prefix", str(path), "--file", str(file)]
            run(command, "building the conda environment", log, deadline, env_vars)
        finally:
            file.unlink()
        _open_to_parent(path)

    return cache.entry("conda", key, build, deadline, in_place=True)


def _open_to_parent(path: Path) -> None:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = path / "lib" / version / "site-packages"
    if not packages.is_dir():
        raise RuntimeEnvSetupError(
            f"the conda environment does not have {version}, the version of the node, so its workers "
            f"could not talk to it. Add '{version[:6]}={version[6:]}' to its dependencies."
        )
    (packages / PARENT_PTH).write_text("".join(parent_lines()), encoding="utf-8")
