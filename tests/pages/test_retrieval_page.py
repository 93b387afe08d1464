"""The retrieval example, started as a reader would start it: its output, its API, and its page in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.pages import browser
from tests.test_main_job import a_free_port

ROOT = Path(__file__).parents[2]
QUESTION = "What does the assert statement do?"
pytestmark = pytest.mark.timeout(200)


class Program:
    """The running example and its output."""

    def __init__(self, folder: Path) -> None:
        self.address = f"http://127.0.0.1:{a_free_port()}"
        words = ["--index", str(folder), "--passages", "60", "--keep", "--question", QUESTION]
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "examples" / "retrieval"),
                "--port",
                self.address.rpartition(":")[2],
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "160"},
        )
        self.output = ""
        self.complained = ""
        self._lines: Queue[str | None] = Queue()
        self._threads = [threading.Thread(target=each) for each in (self._listen, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self.complained = self.process.stderr.read()

    def until(self, wanted: str, seconds: float = 140) -> None:
        """Read its output until a line contains a text."""
        while (line := self._lines.get(timeout=seconds)) is not None:
            self.output += line
            if wanted in line:
                return
        self._threads[1].join(10)
        pytest.fail(f"it ended without printing {wanted!r}:\n{self.output}\n{self.complained}")

    def end(self) -> int:
        """Ctrl-C; its status."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(10)
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Serve a small part of the reference."""
    started = Program(tmp_path_factory.mktemp("index"))
    try:
        started.until("Ctrl-C ends it")
        yield started
    finally:
        if started.process.poll() is None:
            started.end()


def ask(driver: webdriver.Chrome, question: str) -> None:
    """Type a question and send it."""
    field = driver.find_element(By.ID, "question")
    field.clear()
    field.send_keys(question)
    driver.find_element(By.ID, "ask").click()


def text(driver: webdriver.Chrome, name: str) -> str:
    return driver.find_element(By.ID, name).text


def wait(driver: webdriver.Chrome, condition: str, seconds: float = 30) -> None:
    """Until a line of JavaScript is true."""
    WebDriverWait(driver, seconds, 0.02).until(
        lambda _: driver.execute_script(f"return {condition}"), f"never true: {condition}"
    )


def test_it_indexes_asks_and_names_its_sources(program: Program) -> None:
    assert re.search(r"60 passages indexed in \d+ s, \d+ of them embedded", program.output)
    assert re.search(r"^\[1\] [\d.]+ +reference: assert", program.output, re.MULTILINE)
    answer = program.output[program.output.index(QUESTION) + len(QUESTION) : program.output.index("\n[1] ")]
    assert "[1]" in answer and "assert" in answer


def test_the_api_answers_as_one_object_and_refuses_what_is_no_question(program: Program) -> None:
    at = f"{program.address}/api/ask"
    answered = httpx.post(at, json={"question": QUESTION}, timeout=60).json()
    assert answered["question"] == QUESTION and answered["writer"]["kind"] == "sentences"
    assert [each["number"] for each in answered["sources"]] == [1, 2, 3, 4]
    assert answered["sources"][0]["title"] == "reference: assert"
    scores = [each["score"] for each in answered["sources"]]
    assert scores == sorted(scores, reverse=True) and 0 < scores[-1] <= scores[0] <= 1
    for sentence, number in re.findall(r"(.+?) \[(\d)\] ?", answered["answer"]):
        assert sentence in " ".join(answered["sources"][int(number) - 1]["text"].split()), "word for word"
    for body in ({"question": "  "}, {"question": 3}, ["question"], {"question": "x" * 501}):
        refused = httpx.post(at, json=body)
        assert refused.status_code == 400 and refused.json()["error"]
    assert httpx.post(at, content=b"{").status_code == 400
    nothing = httpx.post(at, json={"question": "Who won the football world cup?"}, timeout=60).json()
    assert nothing["sources"] == [] and nothing["answer"].startswith("Nothing")


def test_a_reader_asks_and_sees_answer_and_sources(driver: webdriver.Chrome, program: Program) -> None:
    driver.get(program.address)
    # What the page shows, whenever it changes, with whether it was still at work then.
    driver.execute_script(
        "window.seen = []; new MutationObserver(() => seen.push([at('answer').textContent.length, "
        "at('sources').children.length, running !== null])).observe(document.body, {childList: true, subtree: true})"
    )
    ask(driver, QUESTION)
    wait(driver, "running === null && at('status').textContent.startsWith('It took: retrieve ')")
    seen = driver.execute_script("return window.seen")
    assert any(sources == 4 and length == 0 for length, sources, _ in seen), "sources come before the answer"
    assert len({length for length, _, working in seen if working and length}) >= 2, (
        "the answer comes in pieces"
    )
    assert "[1]" in text(driver, "answer") and "word for word" in text(driver, "writer")
    shown = driver.find_elements(By.CSS_SELECTOR, "#sources li")
    assert len(shown) == 4
    assert re.match(r"\[1\] reference: assert score 1.00, cosine 0\.\d\d\n", shown[0].text)
    assert "__debug__" in "".join(each.text for each in shown), "excerpts are shown"
    driver.find_element(By.CSS_SELECTOR, "#answer a").click()
    assert driver.current_url.endswith("#source-1")
    assert (
        driver.execute_script("return document.activeElement.id || document.querySelector(':target').id")
        == "source-1"
    )
    assert not browser.complaints(driver)


@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_any_light_and_width(
    driver: webdriver.Chrome, program: Program, scheme: str, width: int, tmp_path: Path
) -> None:
    if not driver.current_url.startswith(program.address):
        driver.get(program.address)
    browser.in_colours(driver, scheme)
    browser.as_wide_as(driver, width)
    assert browser.hard_to_read(driver) == []
    assert browser.hangs_over(driver) == 0
    assert browser.without_a_name(driver) == []


def test_no_question_and_one_about_nothing(driver: webdriver.Chrome, program: Program) -> None:
    driver.get(program.address)
    driver.find_element(By.ID, "ask").click()
    assert text(driver, "problem") == "Write a question first."
    assert driver.execute_script("return document.activeElement.id") == "question"
    ask(driver, "xyzzy plugh <b>frob</b>")
    wait(driver, "running === null && at('status').textContent.startsWith('It took: retrieve ')")
    assert text(driver, "answer").startswith("Nothing in the documentation")
    assert text(driver, "problem") == "" and not driver.find_element(By.ID, "found").is_displayed()


def test_an_answer_can_be_stopped(driver: webdriver.Chrome, program: Program) -> None:
    driver.get(program.address)
    driver.execute_script(
        "new MutationObserver(() => at('stop').click()).observe(at('sources'), {childList: true})"
    )
    ask(driver, QUESTION)
    wait(driver, "running === null && at('status').textContent")
    assert text(driver, "status") == "Stopped." and text(driver, "problem") == ""
    assert driver.find_element(By.ID, "ask").is_enabled()
    assert not driver.find_element(By.ID, "stop").is_enabled()


def test_an_error_of_the_server_is_shown(driver: webdriver.Chrome, program: Program) -> None:
    driver.get(program.address)
    driver.execute_script("at('question').removeAttribute('maxlength')")
    ask(driver, "why " * 200)
    wait(driver, "at('problem').textContent")
    assert (
        text(driver, "problem") == "There is no answer: a question may have 500 characters, this one has 799"
    )
    assert driver.find_element(By.ID, "ask").is_enabled()


def test_ctrl_c_ends_it_and_the_page_says_so(driver: webdriver.Chrome, program: Program) -> None:
    driver.get(program.address)
    assert program.end() == 0
    assert "Traceback" not in program.complained
    ask(driver, QUESTION)
    wait(driver, "at('problem').textContent")
    assert text(driver, "problem") == "There is no answer: the server cannot be reached."
