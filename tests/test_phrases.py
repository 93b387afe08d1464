"""Plain English, as far as a machine can check it: phrases that texts of the repository avoid, counted by package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from test_tidy import Source, everything
from tidy_limits import AWKWARD_PHRASES

# Phrases that no native writer uses, with the usual ones. They count in comments, docstrings and messages.
AWKWARD = {
    r"for ever\b": "forever, or without end",
    r"in vain\b": "without success",
    r"for (?:lack|want) of": "because there is no ...",
    r"(?:goes|go|went|going) on\b": "continues, resumes",
    r"nobody (?:wants|knows|asks|asked|waits|looks|is told|tells)": "the passive, or the name of the part: 'unused'",
    r"(?:somebody|whoever) (?:wants|knows|asks|asked|waits|looks|has)": "the name of the part: 'a process that ...'",
    r"(?:can|cannot|could) be had": "is (not) available",
    r"is (?:up )?to be had": "is available",
    r"(?:without|hears) a word": "silently; receives a message",
    r"of its own (?:will|accord)": "on its own",
}  # fmt: skip


def awkward_phrases(source: Source) -> Iterator[str]:
    # Lines joined, without comment markers, so that a phrase is found across the end of a line.
    text = re.sub(r"\s+(?:#:?\s)?\s*", " ", source.text)
    for phrase, better in AWKWARD.items():
        for found in re.finditer(rf"\b{phrase}", text, re.IGNORECASE):
            around = text[max(0, found.start() - 40) : found.end() + 20]
            yield f"{source.name} says {found.group()!r} in '...{around}...': write {better}"


def test_texts_use_plain_phrases() -> None:
    found: dict[str, list[str]] = {package: [] for package in AWKWARD_PHRASES}
    for source in everything():
        if source.name == "tests/test_phrases.py":
            continue
        package = f"src/skate/{source.layer}" if source.layer else Path(source.name).parts[0]
        found.setdefault(package, []).extend(awkward_phrases(source))
    for package, complaints in found.items():
        allowed = AWKWARD_PHRASES.get(package, 0)
        assert len(complaints) <= allowed, f"{package} may have {allowed}:\n" + "\n".join(complaints)
        assert len(complaints) == allowed, f"{package} has {len(complaints)}: lower AWKWARD_PHRASES to that"


def test_an_awkward_phrase_is_found_across_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("# It waits for\n    # ever.\n'''It goes\non.'''\n")
    assert len(list(awkward_phrases(Source(path, "src/skate/node/x.py")))) == 2
