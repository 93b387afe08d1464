"""The views of libraries in a real browser, before a program that uses all of them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By
from waiting import wait_for

from skate.dashboard import kept
from skate.dashboard.access import Access, hosts_of
from skate.dashboard.session_file import SessionFile
from skate.util.http.bounded_server import QuietServer, configured
from tests.pages import browser, library_program
from tests.pages.library_program import HOSTILE, LOSSES, Running

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
pytestmark = pytest.mark.timeout(180)
VIEWS = {
    "data": "All of its actors are busy.",
    "train": "rank 1",
    "tune": "loss 0.1",
    "serve": "healthy",
    "llm": "tiny-llama",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    browser.required()
    with library_program.running(tmp_path_factory.mktemp("program")) as found:
        yield found


@pytest.fixture(scope="module")
def opened(driver: webdriver.Chrome, program: Running) -> webdriver.Chrome:
    browser.as_wide_as(driver, 1400)
    driver.get(program.link.link)
    return driver


@pytest.fixture(scope="module")
def places(opened: webdriver.Chrome) -> dict[str, str]:
    """The views, and the pages of single things, with a text of each."""
    keys = {}
    for view, part in {"data": "datasets", "train": "runs", "tune": "searches", "llm": "models"}.items():
        rows = asked(opened, f"api/skate/{view}")[part]
        keys[view] = quote(rows[0]["key"], safe="")
    return {
        **VIEWS,
        f"data/{keys['data']}": "Operators, in order",
        f"train/{keys['train']}": "others wait for it",
        f"tune/{keys['tune']}": "AsyncHyperBandScheduler has stopped it",
        "serve/shop/Shop": "Autoscaling",
        f"llm/{keys['llm']}": "2 of 8 slots",
    }


def asked(driver: webdriver.Chrome, path: str) -> Any:
    script = (
        "const done = arguments[1]; import('./page/session.js').then(({ask}) => ask(arguments[0]))"
        ".then(done, (error) => done({error: String(error)}))"
    )
    return driver.execute_async_script(script, path)


def main_of(driver: webdriver.Chrome) -> str:
    return driver.find_element(By.TAG_NAME, "main").text


def show(driver: webdriver.Chrome, place: str, text: str) -> None:
    """Go to a place of the page, and wait for a text there."""
    driver.execute_script("location.hash = '#/' + arguments[0]", place)
    wait_for(lambda: text in main_of(driver))


def press(driver: webdriver.Chrome, name: str) -> None:
    """Press the button with this name."""
    button = next(
        each for each in driver.find_elements(By.CSS_SELECTOR, "main button") if each.text.startswith(name)
    )
    driver.execute_script("arguments[0].click()", button)


def violations(driver: webdriver.Chrome) -> list[str]:
    if not driver.execute_script("return typeof axe === 'object'"):
        driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    script = (
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']})"
        ".then((found) => done(JSON.stringify(found.violations)), (error) => done(JSON.stringify([String(error)])))"
    )
    found = json.loads(driver.execute_async_script(script))
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_view_is_accessible_and_quiet(
    opened: webdriver.Chrome, places: dict[str, str], scheme: str
) -> None:
    browser.in_colours(opened, scheme)
    for place, text in places.items():
        show(opened, place, text)
        assert violations(opened) == [], place
        assert opened.execute_script("return document.querySelectorAll('h1').length") == 1, place
    assert browser.complaints(opened) == []
    assert opened.title != "attacked"


def test_each_view_fits_a_phone(opened: webdriver.Chrome, places: dict[str, str]) -> None:
    browser.as_wide_as(opened, 360)
    try:
        for place, text in places.items():
            show(opened, place, text)
            assert browser.hangs_over(opened) <= 0, place
            assert browser.without_a_name(opened) == [], place
    finally:
        browser.as_wide_as(opened, 1400)


def test_the_curves_are_those_of_the_journal(
    opened: webdriver.Chrome, places: dict[str, str], program: Running
) -> None:
    place = next(each for each in places if each.startswith("train/"))
    show(opened, place, "others wait for it")
    press(opened, "Table")
    lines = (program.folder / "vision" / "journal.jsonl").read_text().splitlines()
    losses = [entry["metrics"]["loss"] for entry in map(json.loads, lines) if entry["event"] == "report"]
    assert losses == [LOSSES[0], *LOSSES]
    table = opened.find_element(By.CSS_SELECTOR, "[aria-label='loss as a table']")
    wait_for(lambda: len(table.find_elements(By.CSS_SELECTOR, "tbody tr")) == len(losses))
    shown = [
        row.find_elements(By.TAG_NAME, "td")[1].text
        for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]
    assert [float(each) for each in reversed(shown)] == losses
    text = main_of(opened)
    assert "Rank 1 failed first" in text and f"no column {HOSTILE}" in text and "4.88 KiB" not in text
    assert "9.8 KiB" in text or "9.77 KiB" in text or "KiB" in text, "the checkpoint of two ranks has a size"


def test_trials_are_compared(opened: webdriver.Chrome, places: dict[str, str]) -> None:
    place = next(each for each in places if each.startswith("tune/"))
    show(opened, place, "AsyncHyperBandScheduler has stopped it")
    assert len(opened.find_elements(By.CSS_SELECTOR, ".coordinates polyline")) == 4
    assert "best" in str(
        opened.find_elements(By.CSS_SELECTOR, ".coordinates polyline")[-1].get_attribute("class")
    )
    assert f"diverged {HOSTILE}" in main_of(opened)
    axis = opened.find_element(By.CSS_SELECTOR, ".coordinates .grip")
    height = axis.size["height"]
    webdriver.ActionChains(opened).move_to_element_with_offset(
        axis, 0, int(height * 0.3)
    ).click_and_hold().move_by_offset(0, int(height * 0.3)).release().perform()
    wait_for(lambda: "of 4 trials chosen" in main_of(opened))
    press(opened, "All")
    wait_for(lambda: "trials chosen" not in main_of(opened))


def test_a_request_is_sent_from_the_page(opened: webdriver.Chrome) -> None:
    show(opened, "serve", "Try it")
    press(opened, "Try it")
    path = opened.find_element(By.CSS_SELECTOR, "form.try input[name=path]")
    path.clear()
    path.send_keys(f"/?n={quote(HOSTILE)}")
    press(opened, "Send")
    wait_for(lambda: "200 OK" in main_of(opened))
    assert f'{{"product":"{HOSTILE}"}}'.replace(" ", "") in main_of(opened).replace(" ", "").replace(
        "imgsrc", "imgsrc"
    )
    assert violations(opened) == [] and opened.title != "attacked"


def test_a_kept_session_is_shown_without_the_program(
    opened: webdriver.Chrome, places: dict[str, str], tmp_path: Path
) -> None:
    script = (
        "const done = arguments[0]; import('./page/session.js').then(({token}) => fetch('api/skate/session',"
        " {headers: {Authorization: `Bearer ${token()}`}})).then((answer) => answer.arrayBuffer())"
        ".then((found) => done(Array.from(new Uint8Array(found))))"
    )
    path = tmp_path / "saved.skate"
    path.write_bytes(bytes(opened.execute_async_script(script)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        access = Access(hosts_of("127.0.0.1", port))
        file = SessionFile(str(path))
        server: uvicorn.Server = QuietServer(configured(kept.guarded(file, access), loop="asyncio"))
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        live = opened.current_url.split("#")[0]
        try:
            opened.get(f"http://127.0.0.1:{port}/#token={access.tokens['read']}")
            wait_for(lambda: "This is a kept session" in main_of(opened))
            for place, text in places.items():
                show(opened, place, text)
                assert violations(opened) == [], place
            show(opened, "work/nodes", "127.0.0.1")
            assert browser.complaints(opened) == []
        finally:
            opened.get(f"{live}#token={library_program.TOKEN}")
            server.should_exit = True
            thread.join()
            file.close()
