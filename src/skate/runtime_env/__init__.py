"""Runtime environments: what a worker needs before it can run a job's, a task's or an actor's code.

Public here: RuntimeEnv and RuntimeEnvConfig. Inside, in the order in which an environment passes through:

    env, config      the public classes
    fields           each field checked where it is written (requirements: for pip and uv; refusal: errors)
    merge            the job's environment under the task's
    identity         one key for what is the same environment
    prepare          the one door for the engine: validate, merge, freeze, prepare, release
    trees            working directories and modules in the cache (packaging: folders to archives; ignore:
                     what stays out; archives: safe unpacking; remote: URIs)
    environments     virtual environments (installers: pip and uv run to their end; conda: conda's own)
    cache            where all this lies, who uses it, what goes when it grows too large
"""

from __future__ import annotations

from skate.runtime_env.config import RuntimeEnvConfig
from skate.runtime_env.env import RuntimeEnv

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
