"""Runtime environments: what a worker needs before it can run a job's, a task's or an actor's code.

Public here: RuntimeEnv and RuntimeEnvConfig. Inside, in the order in which an environment passes through:

    env, config      the public classes
    fields, refusal  validation of each field where it is given, and its error messages
    resolve          validation of the whole, independent of the process that wrote it
    merge            the job's environment under the task's
    identity         one key per distinct environment
    prepare          the interface for the engine: validate, merge, share, prepare, release
    trees            working directories and modules in the cache (package: folders to archives; ignore: excluded files;
                     archives: safe unpacking; remote: download from URIs)
    package_uri      the URIs of packages that nodes fetch from each other
    packages         pip, uv and conda: requirement lists, installers and the environments that they create
    hooks            setup hooks, encoded for workers
    cache            location, users and eviction of all of these
"""

from __future__ import annotations

from skate import lazy_loader
from skate.runtime_env.config import RuntimeEnvConfig
from skate.runtime_env.env import RuntimeEnv

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]

__getattr__ = lazy_loader.getter(globals(), {})
