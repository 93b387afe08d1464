"""Runtime environments: what a worker needs before it can run a job's, a task's or an actor's code.

Public here: RuntimeEnv and RuntimeEnvConfig. Inside, in the order in which an environment passes through:

    env, config      the public classes
    fields           validation of each field where it is written (requirements: for pip and uv; refusal: errors)
    merge            the job's environment under the task's
    identity         one key per distinct environment
    prepare          the interface for the engine: validate, merge, freeze, prepare, release
    trees            working directories and modules in the cache (packaging: folders to archives; ignore:
    excluded files; archives: safe unpacking; remote: URIs) environments     virtual environments (installers:
    running pip and uv; conda: conda environments) cache            location, users and eviction of all of
these
"""

from __future__ import annotations

from skate.runtime_env.config import RuntimeEnvConfig
from skate.runtime_env.env import RuntimeEnv

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
