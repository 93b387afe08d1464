"""Ray's environment variables about the lines of workers."""

from __future__ import annotations

from skate.node.output.line_style import Repetitions, from_environment


def styled(text: str, **environ: str) -> str:
    style = from_environment(environ)
    return text if style is None else style.styled(text) + style.rest()


def test_prefixes() -> None:
    text = "(f pid=12) one (x pid=3) two\n(Actor(1) pid=13, ip=10.0.0.1) three\nunnamed\n"
    assert styled(text) == styled(text, RAY_COLOR_PREFIX="0", RAY_DEDUP_LOGS="0") == text
    assert styled(text, RAY_DISABLE_WORKER_LOG_PREFIX="1") == "one (x pid=3) two\nthree\nunnamed\n"
    first, second, third = styled(text, RAY_COLOR_PREFIX="1").splitlines()
    assert first == "\x1b[35m(f pid=12)\x1b[0m one (x pid=3) two" and third == "unnamed"
    assert second.endswith("m(Actor(1) pid=13, ip=10.0.0.1)\x1b[0m three")


def test_equal_lines_of_several_processes_are_merged_on_request() -> None:
    text = "".join(f"(f pid={pid}) step {pid}\n" for pid in (1, 1, 2, 3)) + "(f pid=1) 5\n(f pid=2) 5\n"
    merged = styled(text, RAY_DEDUP_LOGS="1").splitlines()
    assert merged == [
        "(f pid=1) step 1", "(f pid=1) step 1", "(f pid=1) 5", "(f pid=2) 5",
        "(f pid=3) step 3 [repeated 2x across cluster]",
    ]  # fmt: skip
    rules = {"RAY_DEDUP_LOGS_ALLOW_REGEX": "step", "RAY_DEDUP_LOGS_SKIP_REGEX": "^5"}
    assert styled(text, RAY_DEDUP_LOGS="1", **rules).splitlines() == text.splitlines()[:4]


def test_merged_lines_appear_after_the_window() -> None:
    now = 0.0
    lines = Repetitions(window_s=5.0, clock=lambda: now)
    said = [list(lines.passed(f"(f pid={pid}) x")) for pid in (1, 2)]
    assert said == [["(f pid=1) x"], []]
    now = 6.0
    assert list(lines.passed("(f pid=3) y")) == ["(f pid=2) x", "(f pid=3) y"]
    assert list(lines.passed("(f pid=3) x")) == ["(f pid=3) x"], "it counts from the beginning"
