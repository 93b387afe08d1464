"""A headless Chromium that a test drives; `make browser` installs it where it can."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

NEEDED = ("chromium", "chromedriver")


def required() -> None:
    """Skip on a machine without the browser; fail where CI is meant to have installed it."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        complaint = f"{' and '.join(missing)} not found: `make browser` installs them (Debian: chromium, chromium-driver)"
        if os.environ.get("CI") == "true":
            pytest.fail(complaint, pytrace=False)
        pytest.skip(complaint)


@contextmanager
def chromium(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a profile in `folder`; it and its driver have ended afterwards."""
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for word in (
        "--headless=new",
        "--no-sandbox",  # which root has to do without
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--window-size=1000,900",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


def in_colours(driver: webdriver.Chrome, scheme: str) -> None:
    """Emulate a reader's preference for "light" or "dark"."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def as_wide_as(driver: webdriver.Chrome, width: int, height: int = 900) -> None:
    """A window of this size; headless windows alone do not become narrower than 500."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def picture(driver: webdriver.Chrome, path: Path) -> None:
    """A picture of the window."""
    driver.save_screenshot(str(path))


def complaints(driver: webdriver.Chrome) -> list[dict[str, Any]]:
    """The page's console errors since the last call."""
    return [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


#: Texts whose contrast with what is behind them is below WCAG's 4.5, as (text, contrast).
CONTRASTS = """
const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const colour = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 && n[3] === 0 ? null : n; };
const behind = e => {
  for (; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor); if (c) return c; }
  return [255, 255, 255];
};
return [...document.querySelectorAll("h1, h2, h3, p, a, button, input, #answer")]
  .filter(e => e.offsetParent && !e.disabled && (e.value || e.textContent).trim())
  .map(e => { const a = light(colour(getComputedStyle(e).color)), b = light(behind(e));
    return [(e.value || e.textContent).trim().slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]; })
  .filter(([, contrast]) => contrast < 4.5);
"""


def hard_to_read(driver: webdriver.Chrome) -> list[Any]:
    """Return the texts whose contrast with the background is below WCAG's 4.5."""
    return list(driver.execute_script(CONTRASTS))


def hangs_over(driver: webdriver.Chrome) -> int:
    """How many pixels the page is wider than its window."""
    return int(
        driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )


def without_a_name(driver: webdriver.Chrome) -> list[str]:
    """Fields and buttons that a screen reader has no name for."""
    script = (
        "return [...document.querySelectorAll('input, button')]"
        ".filter(e => !(e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML)"
    )
    return list(driver.execute_script(script))
