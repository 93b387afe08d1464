"""One browser for all pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.pages import browser


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The browser."""
    browser.required()
    with browser.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Save the window's picture at the end of each test in pytest's folder of it."""
    driver = request.getfixturevalue("driver") if "driver" in request.fixturenames else None
    yield
    if driver is not None:
        browser.picture(driver, tmp_path / "page.png")
