"""The page of a session in a real browser, before a program whose tasks run, wait and fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import skate as ray
from tests.pages import browser, session_program
from tests.pages.session_program import HOSTILE, TOKEN, Running

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
pytestmark = pytest.mark.timeout(180)
#: The views, with a text that each shows once it has its data.
VIEWS = {
    "now": "for CPU",
    "work": "Queue times",
    "work/tasks": "waits for resources",
    "work/actors": "keeper",
    "work/groups": "wide",
    "work/jobs": "running",
    "work/nodes": "127.0.0.1",
    "work/workers": "alive",
    "memory": "session_program.py",
    "logs": "kept 3",
    "stacks": "in holds",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The program."""
    browser.required()
    with session_program.running(tmp_path_factory.mktemp("program")) as found:
        yield found


@pytest.fixture(scope="module")
def opened(driver: webdriver.Chrome, session: Running) -> webdriver.Chrome:
    """The browser, with the page open; the time until it shows a failing line and a reason is printed."""
    browser.as_wide_as(driver, 1400)
    begun = time.monotonic()
    driver.get(session.link.link)
    until(lambda: "session_program.py:" in body(driver) and "(held by holds x2)" in body(driver))
    print(f"a failing line and the reason of a wait: {time.monotonic() - begun:.2f} s after opening")
    return driver


def until(condition: Callable[[], Any], what: str = "the condition", seconds: float = 30.0) -> None:
    """Wait until a condition of the page holds. Looks less often than `wait_for`, because a look takes the page's time."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        pause.wait(0.05)


def body(driver: webdriver.Chrome) -> str:
    return str(driver.execute_script("return document.body.innerText"))


def heading(driver: webdriver.Chrome) -> str:
    return str(driver.execute_script("return document.querySelector('h1')?.textContent || ''"))


def show(driver: webdriver.Chrome, place: str, text: str) -> None:
    """Go to a place of the page, and wait for a text there."""
    driver.execute_script("location.hash = '#/' + arguments[0]", place)
    until(
        lambda: text in str(driver.execute_script("return document.querySelector('main').innerText")),
        what=place,
    )


def in_page(driver: webdriver.Chrome, script: str, *given: Any) -> Any:
    """Run a script that may await; its modules are those of the page."""
    run = f"(async () => {{ {script} }})().then(done, e => done({{error: String(e.stack)}}))"
    wrapped = f"const done = arguments[arguments.length - 1]; {run}"
    found = driver.execute_async_script(wrapped, *given)
    assert not (isinstance(found, dict) and "error" in found), found
    return found


def violations(driver: webdriver.Chrome) -> list[str]:
    """Return what axe finds wrong in the page as it is shown."""
    if not driver.execute_script("return typeof axe === 'object'"):
        driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    found = in_page(
        driver, "return JSON.stringify((await axe.run(document, {resultTypes: ['violations']})).violations)"
    )
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in json.loads(found)
        for node in each["nodes"]
    ]


def places_of(session: Running) -> dict[str, str]:
    """Return all places with a text of each: the views, and the pages of single things."""
    actor = ray.get_actor("keeper")._actor_id.hex()
    node = ray.get_runtime_context().get_node_id()
    return {
        **VIEWS,
        f"work/task/{session.failed}": "Raised at",
        f"work/task/{session.waiting}": "Why it waits",
        f"work/actor/{actor}": "Keeper.keep",
        f"work/node/{node}": "in use",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_place_is_accessible_and_quiet(opened: webdriver.Chrome, session: Running, scheme: str) -> None:
    browser.in_colours(opened, scheme)
    browser.as_wide_as(opened, 1400)
    for place, text in places_of(session).items():
        show(opened, place, text)
        assert violations(opened) == [], place
        assert opened.execute_script("return document.querySelectorAll('h1').length") == 1, place
    assert browser.complaints(opened) == []
    assert opened.title != "attacked"


def test_each_place_fits_a_phone(opened: webdriver.Chrome, session: Running) -> None:
    browser.as_wide_as(opened, 360)
    try:
        for place, text in places_of(session).items():
            show(opened, place, text)
            assert browser.hangs_over(opened) <= 0, place
            assert browser.without_a_name(opened) == [], place
        assert violations(opened) == []
    finally:
        browser.as_wide_as(opened, 1400)


def test_a_failure_and_a_wait_are_told_with_their_causes(opened: webdriver.Chrome, session: Running) -> None:
    show(opened, "now", "for arguments of follows")
    text = body(opened)
    assert "2 running" in text and "no CPU: 1 requested, 0 of 2 free (held by holds x2)" in text
    assert f"ValueError: there is no word {HOSTILE}" in text and "placement group wide" in text
    rows = opened.find_elements(By.CSS_SELECTOR, "[aria-labelledby=failures] tbody tr")
    assert rows[0].text.startswith("3"), "equal failures are one row"
    show(opened, f"work/task/{session.failed}", "Raised at")
    text = body(opened)
    line = next(
        number
        for number, line in enumerate(Path(session_program.__file__).read_text().splitlines(), 1)
        if "raise ValueError" in line
    )
    assert f"session_program.py:{line} in fails" in text, text
    until(lambda: f"looking for word {HOSTILE}" in body(opened))
    assert "Submitted at" in text and "session_program.py:" in text.split("Submitted at")[1][:200]
    show(opened, f"work/task/{session.waiting}", "Why it waits")
    chain = [each.text for each in opened.find_elements(By.CSS_SELECTOR, "ol.chain li")]
    assert len(chain) >= 2 and chain[0].startswith("follows") and chain[1].startswith("holds"), chain
    until(lambda: "What it needs, and who needs it" in body(opened))
    assert violations(opened) == []
    boxes = opened.find_elements(By.CSS_SELECTOR, ".graph li")
    said = [each.get_attribute("textContent") for each in boxes]
    assert "holds" in said[0] and "needed by follows" in said[0] and "needs holds" in said[1], said
    opened.find_element(By.CSS_SELECTOR, ".graph").send_keys(
        Keys.TAB
    )  # the next is the link of the only other box
    assert opened.switch_to.active_element.text == "holds"
    opened.find_element(By.CSS_SELECTOR, "ol.chain a").click()
    until(lambda: heading(opened) == "holds")


def test_a_moment_before_is_shown_again(opened: webdriver.Chrome) -> None:
    show(opened, "now", "running")
    until(lambda: opened.find_elements(By.CSS_SELECTOR, ".moment input"), what="some seconds to look back at")
    field = opened.find_element(By.CSS_SELECTOR, ".moment input")
    field.send_keys(Keys.HOME)
    until(lambda: heading(opened).startswith("Now, at "))
    assert "2 running" in body(opened) and field.get_attribute("aria-valuetext") in heading(opened)
    before = field.get_attribute("value")
    field.send_keys(Keys.ARROW_RIGHT)
    until(lambda: int(field.get_attribute("value") or 0) == int(before or 0) + 1)
    assert violations(opened) == []
    opened.find_element(By.CSS_SELECTOR, ".moment button").click()
    until(lambda: heading(opened) == "Now")


def test_keys_move_through_the_page(opened: webdriver.Chrome) -> None:
    show(opened, "work/tasks", "Keeper.keep")
    keys = lambda text: webdriver.ActionChains(opened).send_keys(text).perform()  # noqa: E731
    opened.execute_script("document.activeElement.blur()")
    keys("/")
    assert opened.switch_to.active_element.get_attribute("aria-label") == "Filter tasks"
    keys("fails")
    until(lambda: "3 of " in body(opened))
    assert "filter=fails" in opened.current_url
    keys(Keys.ESCAPE)
    opened.execute_script("document.querySelector('tbody tr[tabindex=\"0\"]').focus()")
    keys(Keys.ARROW_DOWN)
    assert opened.switch_to.active_element.get_attribute("data-at") == "1"
    keys(Keys.ENTER)
    until(lambda: "#/work/task/" in opened.current_url)
    keys("?")
    assert opened.find_element(By.TAG_NAME, "dialog").is_displayed()
    keys(Keys.ESCAPE)
    keys("g1")
    until(lambda: heading(opened) == "Now")
    opened.execute_script("document.querySelector('.skip').focus()")
    keys(Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "main"


def test_logs_are_searched_across_streams(opened: webdriver.Chrome) -> None:
    show(opened, "logs?search=kept 1.?$", "1 of 11")
    field = opened.find_element(By.CSS_SELECTOR, "[data-search]")
    field.send_keys(Keys.ENTER)
    until(lambda: "2 of 11" in body(opened))
    field.send_keys(Keys.SHIFT + Keys.ENTER)
    field.send_keys(Keys.SHIFT + Keys.ENTER)
    until(lambda: "11 of 11" in body(opened))
    assert opened.find_element(By.CSS_SELECTOR, ".lines .current").text.startswith("! Keeper")
    show(opened, "logs?search=kept 5$&only=1", "5 lines")  # two before and two behind it
    show(opened, "logs?search=looking", "looking for word " + HOSTILE)
    show(opened, "logs?search=(", "taken as plain text")


def test_a_profile_is_drawn(opened: webdriver.Chrome) -> None:
    show(opened, "stacks", "Profile all processes")
    opened.find_element(By.CSS_SELECTOR, "[aria-labelledby=profile] select").send_keys("time that")
    found = in_page(
        opened,
        """const { post } = await import("./page/session.js");
        const { treeOf, tableOf } = await import("./page/views/stacks/folding.js");
        const profile = await post("api/skate/profile", { seconds: 0.5, mode: "wall" });
        const names = tableOf(profile).filter((row) => row.whole > 0).map((row) => row.name);
        return { names, weight: treeOf(profile, true).weight, processes: profile.processes.length };""",
    )
    assert found["weight"] > 0 and found["processes"] >= 4
    assert any(name.startswith("holds (") for name in found["names"]), found["names"]


TABLE = """
const [{ html, render, h }, { Table }] = await Promise.all([import("./page/dom.js"), import("./page/parts/table.js")]);
const box = document.createElement("div"); document.body.append(box);
const rows = Array.from({ length: 100_000 }, (_, at) => ({ id: at, name: `row ${at}`, size: (at * 7919) % 100_000 }));
const columns = [{ key: "name", title: "Name" }, { key: "size", title: "Size", numeric: true }];
render(h(Table, { rows, columns, name: "many", order: { key: "size", down: true } }), box);
const frame = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
await frame();
const shown = () => [...box.querySelectorAll("tr[data-at]")];
const first = shown()[0].textContent, count = shown().length, scroll = box.querySelector(".scroll");
const times = [];
for (let at = 0; at < 30; at += 1) {
  const begun = performance.now();
  scroll.scrollTop = (at * 97_001 * 31) % scroll.scrollHeight;
  await frame(); times.push(performance.now() - begun);
}
scroll.scrollTop = scroll.scrollHeight;
await frame(); await frame();
const last = shown().at(-1).textContent;
render(null, box); box.remove();
return { first, last, count, median: times.sort((a, b) => a - b)[15] };
"""


def test_a_hundred_thousand_rows_scroll(opened: webdriver.Chrome) -> None:
    show(opened, "now", "running")
    found = in_page(opened, TABLE)
    print(
        f"100,000 rows: {found['count']} in the document, a jump takes {found['median']:.1f} ms with its two frames"
    )
    assert "99,999" in found["first"].replace("99999", "99,999") and found["last"].endswith("0")
    assert found["count"] < 120


STREAM = """
const [{ Spans }, { draw }, theme] = await Promise.all(
  ["spans", "stream"].map((name) => import(`./page/parts/${name}.js`)).concat(import("./page/theme.js")));
const spans = new Spans(), count = arguments[0], workers = 16, now = 1e9;
for (let at = 0; at < count; at += 1) {
  const end = now - 30 * (1 - at / count);
  spans.add(`function ${at % 8}${"abcdefgh"[at % 8]}`, `pid ${at % workers}`, end - 0.009, end, at % 997 === 0, { name: "x" });
}
const canvas = document.createElement("canvas"); canvas.width = 1200; canvas.height = 400; document.body.append(canvas);
const context = canvas.getContext("2d", { alpha: false });
const kinds = Array.from({ length: theme.KINDS }, (_, at) => theme.kindColour(at));
const palette = { ground: "#fff", quiet: "#555", bad: "#a00", kinds };
const times = []; let boxes = 0;
for (let frame = 0; frame < 40; frame += 1) {
  const begun = performance.now();
  const place = { from: now - 30, to: now + frame * 0.03, width: 1200, height: 400 };
  boxes = draw(context, { spans, running: [], rows: spans.rowsSince(now - 30), palette, ...place });
  context.getImageData(0, 0, 1, 1);  // waits for the drawing
  times.push(performance.now() - begun);
}
canvas.remove();
times.sort((a, b) => a - b);
return { count: spans.count, boxes, median: times[20], most: times[38] };
"""


def test_fifty_thousand_spans_are_drawn(opened: webdriver.Chrome) -> None:
    found = in_page(opened, STREAM, 50_000)
    print(
        f"{found['count']:,} spans as {found['boxes']:,} boxes: {found['median']:.1f} ms a frame, "
        f"95 % within {found['most']:.1f} ms"
    )
    assert found["count"] == 50_000 and found["boxes"] > 1000


CHURN = """
const { model, take } = await import("./page/views/now/model.js"), { store } = await import("./page/views/logs/store.js");
const [seconds, from] = arguments;
const bytes = { arena_used: 1, arena_total: 2, spilled: 0, inline: 0, objects: 1 };
const node = { id: "0a", ip: "i", head: true, resources: [], holders: [], workers: [], ...bytes };
const functions = [{ name: "f", type: "NORMAL_TASK", states: { RUNNING: 1 } }];
for (let at = from; at < from + seconds; at += 1) {
  const now = 2e9 + at, pid = Math.floor(at / 3);
  const task = (each) => [`function ${each}`, `${at} ${each}`, pid + each, now - 0.5, now, each ? "FINISHED" : "FAILED", 0, 0.1];
  const ended = Array.from({ length: 20 }, (_, each) => task(each));
  const error = { at: now, kind: "ValueError", file: "/a.py", line: at % 50, text: "no", message: "no" };
  const failed = [{ name: "function 0", task_id: `${at} 0`, attempt: 0, ...error }];
  take({ now, cursor: `0a=${now}`, nodes: [node], waits: [], functions, ended, ended_count: 20, failed, missing: [] });
}
const { spans, failures } = model;
return { seconds: model.seconds.size, failures: failures.length, spans: spans.count, rows: spans.names.length };
"""


def heap(driver: webdriver.Chrome) -> float:
    """Return the MiB in use, the least after three collections: a single one may leave 8 MiB of what was just dropped."""
    sizes = []
    for _ in range(3):
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        sizes.append(driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])
    return float(min(sizes)) / 2**20


def test_eight_hours_of_answers_do_not_make_it_grow(opened: webdriver.Chrome) -> None:
    """Feed the page with the answers of 16 hours, of 20 tasks a second from ever new workers. What it keeps is full after 8."""
    show(opened, "work", "Queue times")
    sizes = []
    for hours in ((0, 4), (4, 8), (8, 16)):
        found = in_page(opened, CHURN, 3600 * (hours[1] - hours[0]), 3600 * hours[0])
        sizes.append(heap(opened))
    print(f"heap after 4, 8 and 16 hours: {', '.join(f'{size:.1f} MiB' for size in sizes)}; {found}")
    assert found["seconds"] <= 1000 and found["failures"] <= 2000 and found["rows"] <= 2100
    assert sizes[2] < sizes[1] + 5
    opened.refresh()


def asked(driver: webdriver.Chrome) -> int:
    script = (
        "return performance.getEntriesByType('resource').filter((each) => each.name.includes('/api/')).length"
    )
    return int(driver.execute_script(script))


HIDE = """
Object.defineProperty(document, "hidden", { configurable: true, get: () => arguments[0] });
document.dispatchEvent(new Event("visibilitychange"));
"""


def test_a_hidden_tab_asks_for_nothing(opened: webdriver.Chrome) -> None:
    show(opened, "now", "running")
    before = asked(opened)
    until(lambda: asked(opened) >= before + 2, what="it asks each second")
    in_page(opened, HIDE.replace("arguments[0]", "true"))
    settled = in_page(
        opened,
        """const count = () => performance.getEntriesByType("resource").filter((each) => each.name.includes("/api/")).length;
        await new Promise((go) => setTimeout(go, 1500)); const first = count();
        await new Promise((go) => setTimeout(go, 2500)); return [first, count()];""",
    )
    assert settled[0] == settled[1]
    in_page(opened, HIDE.replace("arguments[0]", "false"))
    until(lambda: asked(opened) > settled[1], what="it asks again when it is seen")


def test_a_tab_without_the_token_gets_it_from_another_one_or_asks_for_it(
    opened: webdriver.Chrome, session: Running
) -> None:
    first = opened.current_window_handle
    assert "token" not in opened.current_url and TOKEN not in opened.current_url
    opened.switch_to.new_window("tab")
    try:
        opened.get(session.link.url)
        until(lambda: "running" in body(opened), what="the first tab lends the token")
        opened.execute_script("sessionStorage.setItem('skate.token', 'wrong')")
        opened.refresh()
        until(lambda: "does not accept this token" in body(opened))
        assert violations(opened) == []
        said = [each["message"] for each in browser.complaints(opened)]
        assert all("status of 403" in each or "ERR_" in each for each in said), said
        opened.find_element(By.CSS_SELECTOR, "form.token input").send_keys(session.link.link, Keys.ENTER)
        until(lambda: "running" in body(opened))
    finally:
        opened.close()
        opened.switch_to.window(first)


class Prefixed(BaseHTTPRequestHandler):
    """A proxy that shows the server under /user/ada/proxy/8265/, and puts its own address in place of the browser's."""

    protocol_version = "HTTP/1.1"
    PREFIX = "/user/ada/proxy/8265"
    target = ""

    def do_GET(self) -> None:
        path = self.path.removeprefix(self.PREFIX)
        if path == self.path:
            self.send_error(404)
            return
        connection = HTTPConnection(self.target)
        left_out = ("host", "connection", "origin")
        headers = {name: text for name, text in self.headers.items() if name.lower() not in left_out}
        connection.request("GET", path, headers={**headers, "Host": self.target})
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in ("date", "transfer-encoding", "content-length"):
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def log_message(self, format: str, *given: Any) -> None:
        """Print nothing."""


def test_the_page_works_under_a_prefix(opened: webdriver.Chrome, session: Running) -> None:
    class Handler(Prefixed):
        target = urlsplit(session.link.url).netloc

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            opened.get(f"http://127.0.0.1:{proxy.server_port}{Prefixed.PREFIX}/#token={TOKEN}")
            until(lambda: "held by holds" in body(opened))
            show(opened, "work/actors", "keeper")
            assert browser.complaints(opened) == []
        finally:
            opened.get(session.link.link)
            proxy.shutdown()
            thread.join()


def test_the_page_says_when_its_session_has_ended(opened: webdriver.Chrome, session: Running) -> None:
    show(opened, "now", "running")
    browser.complaints(opened)
    session.gate.touch()
    ray.shutdown()
    until(lambda: "does not answer any more" in body(opened), seconds=60)
    assert "Last failures" in body(opened), "it keeps what it has shown"
    assert violations(opened) == []
    severe = [each for each in browser.complaints(opened) if "ERR_CONNECTION_REFUSED" not in each["message"]]
    assert all("ERR_" in each["message"] for each in severe), severe
