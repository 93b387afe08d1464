"""Takes the pictures of this folder anew, from real runs: what the main job prints, its page, the retrieval example's page.

make browser && .venv/bin/python docs/pictures/take.py            all of them, in about five minutes on two CPUs
.venv/bin/python docs/pictures/take.py main_job --steps 150       of one example, called with these words
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.pages import browser

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: What each example is called with, the port, what is asked on its page, and the window's height.
EXAMPLES = {
    "main_job": (
        ["--record", str(HERE / "main_job.svg")],
        8000,
        "What does Python's reference say about while?",
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


def main() -> None:
    """Take those of the example that is named on the command line, or all."""
    with tempfile.TemporaryDirectory() as profile, browser.chromium(Path(profile)) as driver:
        for name in sys.argv[1:2] or EXAMPLES:
            take(driver, name, sys.argv[2:])


if __name__ == "__main__":
    main()
