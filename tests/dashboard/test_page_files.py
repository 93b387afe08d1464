"""The files of the page keep the rules of tests/test_tidy.py, do nothing that its policy forbids, and are all there are."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator

import pytest
from test_tidy import FILE_LINES, FUNCTION_LINES

from skate.dashboard import front
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from tests.dashboard.asking import access, ask
from tests.pages import vendored

PAGE = front.FOLDER
OWN = sorted(
    path for path in PAGE.rglob("*") if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts
)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
LINE_CHARACTERS = 130
#: What a script of the page must not have, and what to do instead.
BANNED = {
    r"\.(?:inner|outer)HTML\b": "make elements with `html`",
    r"\binsertAdjacentHTML\b": "make elements with `html`",
    r"\bdangerouslySetInnerHTML\b": "make elements with `html`",
    r"\bdocument\.write\b": "make elements with `html`",
    r"\beval\s*\(": "call a function",
    r"\bnew Function\b": "call a function",
    r"\bset(?:Timeout|Interval)\s*\(\s*[\"'`]": "pass a function",
    r"\bsetInterval\b": "use poll.js, which stops for hidden tabs",
    r"\bstyle=\"": "use a class, or style=${{...}}",
    r"\son[a-z]+=\"": "use onClick=${...} and its kind",
    r"https?://(?!www\.w3\.org)": "load nothing from elsewhere",
    r"\bdocument\.cookie\b": "the token is in sessionStorage",
    r"(?:href|src)=\"/": "links are relative, so that the page works under a prefix",
}  # fmt: skip
_FUNCTION = re.compile(
    r"^( {0,2})(?:export )?(?:async )?(?:function\b|const \w+ = .*=> \{$|(?:get |async )?\w+\([^;]*\) \{$)"
)
_IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def ask_app() -> Guard:
    return guarded(access())


def functions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first line and the number of lines of each function and method."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        found = _FUNCTION.match(line)
        if found and not line.rstrip().endswith(("}", "};")):
            indent = found[1]
            end = next((n for n in range(at + 1, len(lines)) if re.match(rf"{indent}[}}`]", lines[n])), at)
            yield at + 1, end - at + 1


def complaints(name: str, text: str) -> Iterator[str]:
    """Yield what is wrong with a script."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield f"{name} has {len(lines)} lines, over {FILE_LINES}: split it at its second noun"
    for first, size in functions(text):
        if size > FUNCTION_LINES:
            yield f"{name}:{first} has {size} lines, over {FUNCTION_LINES}: give its steps names"
    if name.endswith(".js") and not text.startswith("// "):
        yield f"{name} has no comment at its top: say what it holds"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARACTERS:
            yield f"{name}:{number} has {len(line)} characters, over {LINE_CHARACTERS}: break it"
        for pattern, remedy in BANNED.items():
            if re.search(pattern, line) and not name.endswith(".html"):
                yield f"{name}:{number} has {pattern}: {remedy}"


def test_the_files_keep_the_rules() -> None:
    found = [each for path in OWN for each in complaints(path.relative_to(PAGE).as_posix(), path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "// A.\n" + "x();\n" * FILE_LINES,
        "// A.\nfunction f() {\n" + "  x();\n" * FUNCTION_LINES + "}\n",
        "// A.\nclass A {\n  f(a) {\n" + "    x();\n" * FUNCTION_LINES + "  }\n}\n",
        "x();\n",
        "// A.\nnode.innerHTML = text;\n",
        "// A.\neval(text);\n",
        "// A.\nsetTimeout('x()', 1);\n",
        '// A.\nhtml`<b onclick="x()">`;\n',
        '// A.\nimport "https://elsewhere.test/x.js";\n',
    ],
)
def test_a_file_that_breaks_a_rule_is_seen(text: str) -> None:
    assert list(complaints("x.js", text))


def test_each_imported_file_exists_and_each_file_is_used() -> None:
    used = {PAGE / "main.js"}
    for path in SCRIPTS:
        for name in _IMPORT.findall(path.read_text()):
            used.add((path.parent / name).resolve())
    missing = [str(path) for path in used if not path.exists()]
    assert not missing and set(SCRIPTS) == used, set(SCRIPTS) ^ used
    index = (PAGE / front.INDEX).read_text()
    named = {PAGE.parent / name for name in re.findall(r'(?:href|src)="(page/[^"]+)"', index)}
    assert all(path.exists() for path in named)
    assert {path for path in OWN if path.suffix == ".css"} <= named


def test_the_import_map_names_the_vendored_files() -> None:
    found = re.search(r'<script type="importmap">(.*?)</script>', (PAGE / front.INDEX).read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, str] = json.loads(found[1])["imports"]
    assert all((PAGE.parent / path).exists() for path in names.values()), names
    for path in (*SCRIPTS, *(PAGE / "vendor").glob("*.mjs")):
        for name in re.findall(
            r"""(?:^import .*|[;}]|import[^;]*)from\s?["']([^."'][^"']*)["']""", path.read_text()
        ):
            assert name in names, (path, name)


def test_vendored_files_are_those_of_the_record() -> None:
    for each in vendored.files():
        assert vendored.sha256_of(each.path.read_bytes()) == each.sha256, each
    recorded = {each.path for each in vendored.files()}
    for folder in vendored.FOLDERS:
        there = {path for path in folder.iterdir() if path.name != vendored.RECORD}
        assert there == {path for path in recorded if path.parent == folder}
        for package in vendored.packages(folder):
            assert (folder / package["license_file"]).stat().st_size > 500 and package["license"]


def test_only_files_of_the_page_are_served() -> None:
    app = ask_app()
    for path in ("main.js", "vendor/preact.mjs", "style/base.css", "icon.svg"):
        answer = ask(app, f"/page/{path}")
        assert answer.status == 200 and answer.body == (PAGE / path).read_bytes()
        assert answer.headers["content-type"].startswith(("text/javascript", "text/css", "image/svg+xml"))
    for path in (
        "",
        "../app.py",
        "%2e%2e/app.py",
        "..%2fapp.py",
        "/etc/passwd",
        "vendor",
        "vendor/VENDOR.toml",
        "main.js/",
    ):
        answer = ask(app, f"/page/{path}")
        assert answer.status == 404 and b"import" not in answer.body, path


def test_the_policy_allows_its_own_files_alone() -> None:
    policy = ask(ask_app(), "/").headers["content-security-policy"]
    rules = dict(each.strip().split(" ", 1) for each in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["connect-src"] == "'self'"
    assert re.fullmatch(r"'self' 'sha256-[A-Za-z0-9+/]{43}='", rules["script-src"])
    assert rules["style-src"] == "'self'" and "unsafe" not in policy
    assert (
        ask(ask_app(), "/page/main.js")
        .headers["content-security-policy"]
        .startswith("default-src 'none'; frame-")
    )


def test_the_page_is_small() -> None:
    sizes = {name: len(gzip.compress(each.content)) for name, each in front.files().items()}
    print(f"{sum(sizes.values()) / 1024:.0f} KiB compressed, {len(sizes)} files")
    assert sum(sizes.values()) < 160 * 1024
