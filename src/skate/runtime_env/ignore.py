"""Selection of the files to leave out of a package, by patterns with Git's semantics.

Written from gitignore(5) and tested against `git check-ignore` in the tests. Precedence, lowest first: the
default patterns; the .gitignore files from the root down; .rayignore at the root; the `excludes` of the
environment (like patterns on Git's command line, so "!model.bin" re-includes a file excluded by .gitignore).
Within one list the last match decides. Files in an excluded folder cannot be re-included: the folder is not
searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DEFAULTS = (".git", ".venv", "venv", "__pycache__")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_NEVER = "(?!)"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    pattern: re.Pattern[str]
    negated: bool
    only_folders: bool
    # A pattern without an inner slash matches the last part of the path at any level.
    last_part_only: bool

    def matches(self, path: str, is_folder: bool) -> bool:
        """True if the rule matches this path, which is relative to the rule's folder."""
        if self.only_folders and not is_folder:
            return False
        subject = path.rpartition("/")[2] if self.last_part_only else path
        return self.pattern.fullmatch(subject) is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one ignore file, which apply below `folder` ("" for the root)."""

    folder: str
    rules: tuple[Rule, ...]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return True to exclude the path, False to include it, None if no rule matches."""
        inside = path
        if self.folder:
            if not path.startswith(self.folder + "/"):
                return None
            inside = path[len(self.folder) + 1 :]
        for rule in reversed(self.rules):
            if rule.matches(inside, is_folder):
                return not rule.negated
        return None


def parse(lines: Iterable[str], folder: str = "") -> Rules:
    """Parse the lines of an ignore file in `folder`."""
    return Rules(folder, tuple(rule for rule in map(_rule, lines) if rule is not None))


def ignored(path: str, is_folder: bool, rules: Sequence[Rules]) -> bool:
    """True if a path is excluded; `rules` from the lowest precedence to the highest."""
    for group in reversed(rules):
        verdict = group.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _rule(line: str) -> Rule | None:
    line = _without_trailing_spaces(line.removesuffix("\n").removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    if negated:
        line = line[1:]
    only_folders = line.endswith("/")
    if only_folders:
        line = line[:-1]
    anchored = "/" in line
    expression = _expression(line.removeprefix("/") if anchored else line)
    return Rule(re.compile(expression, re.DOTALL), negated, only_folders, not anchored)


def _without_trailing_spaces(line: str) -> str:
    end = len(line)
    while end and line[end - 1] == " ":
        before = line[: end - 1]
        if (len(before) - len(before.rstrip("\\"))) % 2:
            break  # an escaped space is part of the pattern
        end -= 1
    return line[:end]


def _expression(glob: str) -> str:
    """Return the regular expression of a glob in which only ** crosses slashes."""
    out = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            stars = len(glob[at:]) - len(glob[at:].lstrip("*"))
            after = at + stars
            bounded = (at == 0 or glob[at - 1] == "/") and (after == len(glob) or glob[after] == "/")
            if stars < 2 or not bounded:
                out.append("[^/]*")
            elif after == len(glob):
                out.append(".*" if at == 0 else ".+")
            else:
                out.append("(?:.*/)?")
                after += 1
            at = after
        elif char == "?":
            out.append("[^/]")
            at += 1
        elif char == "[":
            part, at = _char_class(glob, at)
            out.append(part)
        elif char == "\\":
            if at + 1 == len(glob):
                return _NEVER
            out.append(re.escape(glob[at + 1]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    return "".join(out)


def _char_class(glob: str, start: int) -> tuple[str, int]:
    """Return the expression of the [class] at `start`, and its end; an unterminated one matches nothing."""
    at = start + 1
    negated = glob[at : at + 1] in ("!", "^") and at < len(glob)
    at += negated
    items: list[str] = []
    first = True
    while at < len(glob) and (first or glob[at] != "]"):
        first = False
        if glob.startswith("[:", at):
            end = glob.find("]", at + 2)
            if end > 0 and glob[end - 1] == ":" and end - 1 >= at + 2:
                name = glob[at + 2 : end - 1]
                if name not in _CLASSES:
                    return _NEVER, len(glob)
                items.append(_CLASSES[name])
                at = end + 1
                continue
        low, at = _class_char(glob, at)
        items.append(_literal(low))
        if glob.startswith("-", at) and at + 1 < len(glob) and glob[at + 1] != "]":
            high, at = _class_char(glob, at + 1)
            if low <= high:
                items.append(f"{_literal(low)}-{_literal(high)}")
    if at >= len(glob):
        return _NEVER, len(glob)
    inside = "".join(items)
    if not inside:
        return ("[^/]" if negated else _NEVER), at + 1
    return f"(?!/)[{'^' if negated else ''}{inside}]", at + 1


def _class_char(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        return glob[at + 1], at + 2
    return glob[at], at + 1


def _literal(char: str) -> str:
    return f"\\{char}" if char in r"\]^-[&~|" else char
