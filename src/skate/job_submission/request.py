"""The request for a new job, checked field by field."""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from typing import Any

METADATA_BYTES_MAX = 1 << 16
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_NUMBERS = ("entrypoint_num_cpus", "entrypoint_num_gpus")


@dataclass
class JobSubmitRequest:
    """The request of a client. `job_id` is the older name of `submission_id`.

    Raises:
        TypeError: a field is of another type. ValueError: a value is invalid.
    """

    entrypoint: str
    submission_id: str | None = None
    job_id: str | None = None
    runtime_env: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _check("entrypoint", self.entrypoint, str)
        if not self.entrypoint.strip() or "\0" in self.entrypoint:
            raise ValueError("entrypoint must be a shell command, and is empty or contains a NUL character")
        self.submission_id = self._checked_id()
        _check_dict("runtime_env", self.runtime_env, object)
        _check_dict("metadata", self.metadata, str)
        size = sum(len(key) + len(value) for key, value in (self.metadata or {}).items())
        if size > METADATA_BYTES_MAX:
            raise ValueError(f"metadata may have {METADATA_BYTES_MAX} characters in all, and has {size}")
        for name in _NUMBERS:
            _check_amount(name, getattr(self, name))
        if self.entrypoint_memory is not None:
            _check("entrypoint_memory", self.entrypoint_memory, int)
            _check_amount("entrypoint_memory", self.entrypoint_memory)
        _check_dict("entrypoint_resources", self.entrypoint_resources, int | float)
        for name, amount in (self.entrypoint_resources or {}).items():
            _check_amount(f"entrypoint_resources[{name!r}]", amount)
        _check_dict("entrypoint_label_selector", self.entrypoint_label_selector, str)

    def _checked_id(self) -> str:
        given = self.submission_id if self.submission_id is not None else self.job_id
        if given is None:
            return new_id()
        _check("submission_id", given, str)
        if not _ID.fullmatch(given):
            raise ValueError(
                f"submission_id={given!r} must consist of 1 to 128 letters, digits and _ . : -, because it names files"
            )
        return given

    def resources(self) -> dict[str, float]:
        """Return the amounts to reserve for the command, by the name of the resource, without zeros."""
        amounts = {
            "CPU": self.entrypoint_num_cpus,
            "GPU": self.entrypoint_num_gpus,
            "memory": self.entrypoint_memory,
            **(self.entrypoint_resources or {}),
        }
        return {name: float(amount) for name, amount in amounts.items() if amount}


def is_id(text: str) -> bool:
    """Return True for what can be the id of a submission."""
    return _ID.fullmatch(text) is not None


def new_id() -> str:
    """Return a random id."""
    letters = (string.ascii_letters + string.digits).translate({ord(each): None for each in "IOl01"})
    return "raysubmit_" + "".join(secrets.choice(letters) for _ in range(16))


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} must be {_words(kind)}, got {type(value)}")


def _check_dict(name: str, value: object, of: Any) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict, got {type(value)}")
    for key, each in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} keys must be strings, got {type(key)}")
        if not isinstance(each, of) or isinstance(each, bool) and of is not object:
            raise TypeError(f"{name} values must be {_words(of)}, got {type(each)}")


def _check_amount(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {type(value)}")
    if not 0 <= value < 2**63:
        raise ValueError(f"{name} must not be negative, got {value}")


def _words(kind: object) -> str:
    return {str: "a string", int: "an integer"}.get(kind, "a number")  # type: ignore[call-overload,no-any-return]
