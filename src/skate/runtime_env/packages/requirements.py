"""Requirement lists for pip and uv: the user's input, normalized to one list of lines.

A requirements file is read at submission, on the machine that has it; its `-r` includes are expanded and its
local paths made absolute, so that the list means the same wherever it is installed.
"""

from __future__ import annotations

import os
import re

from skate.runtime_env.refusal import Place

_INCLUDE = re.compile(r"^(?:-r\s*|--requirement[=\s]\s*)(?P<file>.+)$")
_CONSTRAINT = re.compile(r"^(?:-c\s*|--constraint[=\s]\s*)(?P<file>.+)$")
_EDITABLE = re.compile(r"^(?:-e\s*|--editable[=\s]\s*)(?P<file>.+)$")
_COMMENT = re.compile(r"(^|\s+)#.*$")


def read_file(path: str, place: Place) -> list[str]:
    """Read the requirements in a file, one per line, following includes. Raises ValueError if the file does
    not exist."""
    full = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(full):
        raise place.refused(
            f"names the requirements file {path!r}, but there is no such file (looked at {full})",
            "use an existing file, or a list of packages such as ['requests==2.32.3']",
        )
    return _read(full, place, ())


def _read(path: str, place: Place, including: tuple[str, ...]) -> list[str]:
    if path in including:
        raise place.refused(f"includes itself: {' -> '.join([*including, path])}")
    folder = os.path.dirname(path)
    lines: list[str] = []
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise place.refused(f"cannot be read from {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise place.refused(f"cannot be read from {path}: it is not UTF-8 text") from error
    for line in text.replace("\\\n", "").splitlines():
        stripped = _COMMENT.sub("", line).strip()
        if not stripped:
            continue
        include = _INCLUDE.match(stripped)
        if include and "://" not in stripped:
            target = os.path.normpath(os.path.join(folder, include["file"].strip()))
            if not os.path.isfile(target):
                raise place.refused(f"includes {target} (from {path}), but there is no such file")
            lines += _read(target, place, (*including, path))
        else:
            lines.append(anchored(stripped, folder))
    return list(dict.fromkeys(lines))


def anchored(line: str, folder: str) -> str:
    """Make the local path of a requirement, if any, absolute against `folder`."""
    constraint = _CONSTRAINT.match(line)
    if constraint:
        return f"-c {_absolute(constraint['file'].strip(), folder, always=True)}"
    include = _INCLUDE.match(line)
    if include:
        return f"-r {_absolute(include['file'].strip(), folder, always=True)}"
    editable = _EDITABLE.match(line)
    if editable:
        return f"-e {_absolute(editable['file'].strip(), folder)}"
    return _absolute(line, folder)


def _absolute(text: str, folder: str, *, always: bool = False) -> str:
    # Only explicit paths are paths: "numpy" stays a package even if there is a folder of that name.
    if "://" in text:
        return text
    if text.startswith("~/"):
        return os.path.expanduser(text)
    looks_local = text.startswith(("./", "../")) or text in (".", "..") or text.endswith((".whl", ".tar.gz"))
    if (always or looks_local) and " @ " not in text:
        return os.path.normpath(os.path.join(folder, text))
    return text


def local_path(line: str) -> str | None:
    """Return the local file or folder that a requirement installs or reads, or None for a package."""
    for form in (_CONSTRAINT, _INCLUDE, _EDITABLE):
        match = form.match(line)
        if match:
            line = match["file"].strip()
            break
    path = line.split("[")[0].split(";")[0].strip()
    return path if os.path.isabs(path) and os.path.exists(path) else None
