"""Takes the pictures of this folder anew, from real runs: examples with their pages, and the page of a session.

make browser && .venv/bin/python docs/pictures/take.py            all of them, in about five minutes on two CPUs
.venv/bin/python docs/pictures/take.py main_job                   of one example; words that follow are passed to it
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import skate as ray
import skate.dashboard
from skate.util.announcements import collect
from skate.util.state import list_tasks
from tests.pages import browser

#: The pictures of the page of a session, and how long its program runs before.
SESSION, SESSION_SECONDS = "session", 32
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: What each example is called with, the port, what is asked on its page, and the window's height.
EXAMPLES = {
    "main_job": (
        ["--record", str(HERE / "main_job.svg")],
        8000,
        "Can you explain what str.upper does?",
        520,
    ),
    "retrieval": ([], 8001, "How do I run a command and get its output?", 800),
}


def take(driver: webdriver.Chrome, name: str, more: list[str]) -> None:
    """Run an example until it serves, ask on its page, and keep what the window shows."""
    words, port, question, height = EXAMPLES[name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "110"}
    command = [
        sys.executable,
        "-u",
        str(ROOT / "examples" / name),
        "--keep",
        "--port",
        str(port),
        *words,
        *more,
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="")
            if "Ctrl-C" in line:
                break
        driver.get(f"http://127.0.0.1:{port}")
        browser.in_colours(driver, "light")
        browser.as_wide_as(driver, 900, height)
        field = driver.find_element(By.ID, "question")
        field.clear()
        field.send_keys(question)
        driver.find_element(By.ID, "ask").click()
        WebDriverWait(driver, 60, 0.05).until(
            lambda _: driver.execute_script(
                "return running === null && at('answer').textContent.length > 20"
            ),
            "no answer",
        )
        browser.picture(driver, HERE / f"{name}_page.png")
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)


def take_session(driver: webdriver.Chrome) -> None:
    """Run a program, and keep what the page of its session shows after half a minute."""
    os.environ.update(SKATE_RECORD_REF_CREATION_SITES="1", RAY_IGNORE_UNHANDLED_ERRORS="1")
    folder = tempfile.TemporaryDirectory()
    shutil.copy(HERE / "pipeline.py", Path(folder.name) / "training.py")  # pages show the paths of programs
    sys.path.insert(0, folder.name)
    ray.init(num_cpus=4, object_store_memory=10**8, log_to_driver=False)
    running = importlib.import_module("training").Pipeline()

    def show(name: str, place: str, text: str, height: int, seconds: float = 0.0) -> None:
        browser.as_wide_as(driver, 1200, height)
        driver.execute_script("location.hash = '#/' + arguments[0]", place)
        WebDriverWait(driver, 60).until(lambda _: text in driver.find_element(By.TAG_NAME, "main").text, text)
        time.sleep(seconds)
        browser.picture(driver, HERE / f"session_page_{name}.png")

    def first(state: str, name: str) -> str:
        filters = [("state", "=", state), ("name", "=", name)]
        return str(list_tasks(filters=filters, limit=100)[-1].task_id)

    try:
        driver.get(skate.dashboard(port=0).link)
        browser.in_colours(driver, "light")
        show("now", "now", "ValueError", 1330, SESSION_SECONDS)
        show("task", f"work/task/{first('FAILED', 'train_step')}", "a batch of", 900)
        show("arguments", f"work/task/{first('PENDING_ARGS_AVAIL', 'evaluate')}", "who needs it", 700)
        show("programs", f"programs/{collect('pipeline')[0].key}", "Last values", 700, 8)
    finally:
        running.end()
        ray.shutdown()
        folder.cleanup()


def main() -> None:
    """Take those of the example that is named on the command line, or all."""
    with tempfile.TemporaryDirectory() as profile, browser.chromium(Path(profile)) as driver:
        for name in sys.argv[1:2] or (*EXAMPLES, SESSION):
            if name == SESSION:
                take_session(driver)
            else:
                take(driver, name, sys.argv[2:])


if __name__ == "__main__":
    main()
