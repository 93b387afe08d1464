"""Secrets in rows: variables of runtime environments and what is named like a secret are shown only to who may submit jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from starlette.requests import Request

from skate.dashboard.access import SUBMIT, allows
from skate.dashboard.guard import GRANTED

HIDDEN = "***"
#: The columns with a runtime environment, as an object or as a text in JSON; and those with texts that users have named.
COLUMNS = frozenset(
    {
        "runtime_env",
        "serialized_runtime_env",
        "runtime_env_info",
        "metadata",
        "user_config",
        "args",
        "worker_runtime_env",
        "train_loop_config",
    }
)
ENV_VARS = "env_vars"
_SECRET = re.compile(r"secret|passw|credential|(?:api|access|private)_?key|(?:^|_)token$", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s\"]+(?=@)")


def is_secret(name: str) -> bool:
    """Return True if something is named like a secret."""
    return _SECRET.search(name) is not None


def sees_everything(request: Request) -> bool:
    """Return True if the client of a request may submit jobs."""
    return allows(request.scope[GRANTED], SUBMIT)


def masked(request: Request, answer: object) -> object:
    """Return an answer as the client of a request may see it."""
    return answer if sees_everything(request) else without_secrets(answer)


def without_secrets(value: object) -> object:
    """Return a value with its secrets hidden."""
    if isinstance(value, Mapping):
        return {
            name: _hidden(each) if name in COLUMNS else without_secrets(each) for name, each in value.items()
        }
    return [without_secrets(each) for each in value] if isinstance(value, list) else value


def _hidden(value: object, name: str = "") -> object:
    if name == ENV_VARS and isinstance(value, Mapping):
        return dict.fromkeys(value, HIDDEN)
    if isinstance(value, Mapping):
        return {key: _hidden(each, str(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each, name) for each in value]
    if isinstance(value, str):
        if _SECRET.search(name):
            return HIDDEN
        return _hidden_in_text(value)
    return value


def _hidden_in_text(text: str) -> str:
    if text.startswith("{"):
        try:
            return json.dumps(_hidden(json.loads(text)))
        except ValueError:  # a text that only looks like JSON
            pass
    return _USER_IN_URL.sub(HIDDEN, text)
