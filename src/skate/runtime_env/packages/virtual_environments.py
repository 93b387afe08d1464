"""Virtual environments for pip and uv: one per list of packages, created once and shared.

Packages of the node's own interpreter stay importable in them; packages installed into them take precedence.
If the node itself runs in a virtual environment, the `system site packages` of a new one would be those of
the base installation, so a .pth file points to the node's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.identity import installed
from skate.runtime_env.packages.installers import run

PARENT_PTH = "_skate_parent.pth"
_KEPT_LOGS = 100


def environment(
    cache: Cache,
    installer: str,
    spec: dict[str, Any],
    env_vars: Mapping[str, str],
    deadline: Deadline,
    log_files: Sequence[str] = (),
) -> Path:
    """Return the virtual environment with these packages, installed if necessary; it stays in use until released.

    Args:
        installer: "pip" or "uv".
        spec: that field in normal form.
        env_vars: the environment variables of the runtime environment, for PIP_INDEX_URL and the like.
        log_files: files to which the installer's output is appended when it is run.

    Raises RuntimeEnvSetupError when the installer fails or at the deadline; only the log is kept then.
    """
    key = _key(installer, spec, env_vars)
    log = log_of(cache, f"{installer}-{key}")

    def build(path: Path) -> None:
        log.write_bytes(b"")
        create(path)
        install = _install_with_pip if installer == "pip" else _install_with_uv
        try:
            install(path, spec, log, deadline, env_vars)
        finally:
            for name in log_files:
                with open(log, "rb") as captured, open(name, "ab") as out:
                    shutil.copyfileobj(captured, out)

    return cache.entry("venvs", key, build, deadline, in_place=True)


def _key(installer: str, spec: dict[str, Any], env_vars: Mapping[str, str]) -> str:
    steering = {name: text for name, text in env_vars.items() if name.startswith(("PIP_", "UV_"))}
    parts = [installer, installed(spec), steering, sys.version, sys.executable, sys.prefix, parent_paths()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def log_of(cache: Cache, name: str) -> Path:
    """Return the path of the installer's log for an environment; the oldest logs are deleted."""
    folder = cache.root / "logs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in logs[_KEPT_LOGS:]:
        old.unlink(missing_ok=True)
    return folder / f"{name}.log"


def python_of(path: Path) -> Path:
    """Return the interpreter of an environment."""
    return path / "bin" / "python"


def create(path: Path) -> None:
    """Create an empty virtual environment that can import everything that this interpreter can."""
    # venv is needed only when an environment is created.
    import venv

    try:
        venv.EnvBuilder(system_site_packages=True, symlinks=True, with_pip=False).create(path)
    except OSError as error:
        raise RuntimeEnvSetupError(f"the virtual environment {path} cannot be created: {error}.") from error
    packages = path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / PARENT_PTH).write_text("".join(parent_lines()), encoding="utf-8")


def parent_lines() -> list[str]:
    """Return the lines of a .pth file for everything that this interpreter can import, including editable installs."""
    return [f"import site; site.addsitedir({folder!r})\n" for folder in parent_paths()]


def parent_paths() -> list[str]:
    """Return the folders from which this interpreter imports packages, including Skate's own."""
    folders = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    # A checkout, or another place from which this package is imported.
    folders.append(str(Path(__file__).resolve().parents[3]))
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _install_with_pip(
    path: Path, spec: dict[str, Any], log: Path, deadline: Deadline, env_vars: Mapping[str, str]
) -> None:
    python = str(python_of(path))
    env_vars = {**env_vars, "VIRTUAL_ENV": str(path)}
    _have_pip(python, log, deadline, env_vars, spec.get("pip_version"))
    command = [python, "-m", "pip", "install", *spec.get("pip_install_options", ()), *_listed(path, spec)]
    run(command, "installing packages with pip", log, deadline, env_vars)
    if spec.get("pip_check"):
        run([python, "-m", "pip", "check"], "checking the packages with pip", log, deadline, env_vars)


def _have_pip(
    python: str, log: Path, deadline: Deadline, env_vars: Mapping[str, str], version: str | None = None
) -> None:
    # The node's own pip also works in the environment: it is importable there, and installs into it.
    import importlib.util

    if importlib.util.find_spec("pip") is None:
        run([python, "-m", "ensurepip"], "installing pip into the environment", log, deadline, env_vars)
    if version:
        wanted = f"pip{version}" if version[0] in "=<>!~" else f"pip=={version}"
        command = [python, "-m", "pip", "install", "--ignore-installed", wanted]
        run(command, f"installing {wanted} into the environment", log, deadline, env_vars)


def _install_with_uv(
    path: Path, spec: dict[str, Any], log: Path, deadline: Deadline, env_vars: Mapping[str, str]
) -> None:
    python = str(python_of(path))
    env_vars = {**env_vars, "VIRTUAL_ENV": str(path)}
    uv = _uv(path, spec.get("uv_version"), log, deadline, env_vars)
    options = spec.get("uv_pip_install_options", ())
    command = [uv, "pip", "install", "--python", python, *options, *_listed(path, spec)]
    run(command, "installing packages with uv", log, deadline, env_vars)
    if spec.get("uv_check"):
        command = [uv, "pip", "check", "--python", python]
        run(command, "checking the packages with uv", log, deadline, env_vars)


def _uv(path: Path, version: str | None, log: Path, deadline: Deadline, env_vars: Mapping[str, str]) -> str:
    """Return the uv command: the machine's, or one installed into the environment if it is missing or of another
    version.
    """
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found and not version:
        return found
    wanted = f"uv{version}" if version and version[0] in "=<>!~" else f"uv=={version}" if version else "uv"
    python = str(python_of(path))
    _have_pip(python, log, deadline, env_vars)
    command = [python, "-m", "pip", "install", "--ignore-installed", wanted]
    run(command, f"installing {wanted} into the environment", log, deadline, env_vars)
    return str(path / "bin" / "uv")


def _listed(path: Path, spec: dict[str, Any]) -> list[str]:
    requirements = path / "requirements.txt"
    requirements.write_text("\n".join(spec["packages"]) + "\n", encoding="utf-8")
    return ["-r", str(requirements)]


def worker_env_vars(path: Path, env_vars: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an activated environment, so that workers find its commands too."""
    search = env_vars.get("PATH", os.environ.get("PATH", os.defpath))
    return {"VIRTUAL_ENV": str(path), "PATH": f"{path / 'bin'}{os.pathsep}{search}"}


def command_of(path: Path) -> str:
    """Return the command that starts an environment's interpreter, quoted for a shell."""
    return shlex.quote(str(python_of(path)))
