"""The environment of a job's command: its variables, its folder, and what `python` and `import ray` mean there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from skate.client.session.node_access import SCHEME
from skate.client.session.submitted_job import CONFIG_VARIABLE, JOURNAL_VARIABLE, SUBMISSION_VARIABLE
from skate.job_submission.journal import Journal
from skate.runtime_env.package_store import PackageStore, name_of
from skate.runtime_env.prepare import Prepared

#: The module that `import ray` finds first: it puts Skate in its own place.
SHIM = '''\
"""Makes `import ray` mean Skate in the command of a job and in all programs that it starts."""

import importlib
import sys

del sys.modules["ray"]
importlib.import_module("skate.compat").install()
importlib.import_module("ray")
'''
COMMAND = """\
#!{python}
import sys

from skate.command import main

sys.exit(main())
"""


def with_local_packages(runtime_env: dict[str, Any], session_folder: str) -> dict[str, Any]:
    """Return a runtime environment with the uploaded packages by their paths in the store.

    Raises FileNotFoundError for a package that was not uploaded, PackageRefused for an invalid name.
    """
    store = PackageStore(session_folder)

    def local(uri: Any) -> Any:
        name = name_of(uri) if isinstance(uri, str) else None
        if name is None:
            return uri
        if not store.exists(name):
            raise FileNotFoundError(f"the package {uri} was not uploaded to this session")
        return str(store.path(name))

    done = dict(runtime_env)
    if "working_dir" in done:
        done["working_dir"] = local(done["working_dir"])
    if done.get("py_modules"):
        done["py_modules"] = [local(uri) for uri in done["py_modules"]]
    return done


def find_own_python_first() -> None:
    """Put the folder of this interpreter first on PATH, so that `python` in a command has Skate too."""
    folder = os.path.dirname(sys.executable)
    before = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([folder, *(each for each in before if each != folder)])


def of_command(
    record: dict[str, Any], prepared: Prepared, path: str, journal: Journal, devices: str | None
) -> dict[str, str]:
    """Return the variables of a job's command.

    Args:
        record: the job.
        prepared: its runtime environment.
        path: the node's socket.
        journal: the table of jobs, for whose session `write_shim` was called.
        devices: the GPUs reserved for the command, or None if none are.
    """
    shim = journal.shim
    env = {**os.environ, **prepared.env_vars}
    env["PATH"] = os.pathsep.join([os.path.join(shim, "bin"), env.get("PATH", os.defpath)])
    paths = [os.path.join(shim, "lib"), *prepared.sys_path, env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(each for each in paths if each)
    env.setdefault("PYTHONUNBUFFERED", "1")
    env["SKATE_ADDRESS"] = env["RAY_ADDRESS"] = SCHEME + path
    env["SKATE_TMPDIR"] = os.path.dirname(path)
    env[SUBMISSION_VARIABLE] = record["id"]
    env[JOURNAL_VARIABLE] = journal.path
    names = {"job_submission_id": record["id"], "job_name": record["id"]}
    config = {"runtime_env": record["runtime_env"] or {}, "metadata": {**names, **(record["metadata"] or {})}}
    env[CONFIG_VARIABLE] = json.dumps(config)
    if devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = devices
    return env


def write_shim(folder: str) -> None:
    """Fill the folder that makes `import ray` and the command `ray` mean Skate. No-op if it is there."""
    for name, text, mode in (
        ("lib/ray.py", SHIM, 0o600),
        ("bin/ray", COMMAND.format(python=sys.executable), 0o700),
    ):
        path = Path(folder, name)
        if path.exists():
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}-{os.getpid()}")
        part.write_text(text)
        part.chmod(mode)
        part.replace(path)
