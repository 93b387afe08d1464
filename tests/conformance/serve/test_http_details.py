"""Headers that Serve itself looks at, and values that become JSON."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import ipaddress
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from ray import serve
from waiting import wait_for


class Point:
    def __init__(self) -> None:
        self.x, self.when = 1, dt.date(2024, 1, 1)


VALUES: dict[str, tuple[Any, Any]] = {
    "a decimal": (decimal.Decimal("1.50"), 1.5),
    "a whole decimal": (decimal.Decimal("3"), 3),
    "a duration": ({"after": dt.timedelta(minutes=1)}, {"after": 60.0}),
    "a path": ([pathlib.PurePosixPath("/a/b")], ["/a/b"]),
    "an address": (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
    "a pattern": (re.compile("a+"), "a+"),
    "an exception": ({"why": ValueError("no")}, {"why": "no"}),
    "a frame": (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    "arrays": ({"a": np.arange(2), "b": np.float32(1.5)}, {"a": [0, 1], "b": 1.5}),
    "an object of one's own": (Point(), {"x": 1, "when": "2024-01-01"}),
}

#: What is sent as it is.
CONTENT: dict[str, Any] = {"nothing": None, "bytes": b"ab", "text": "ab"}


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Answers:
    def __init__(self) -> None:
        self.ends: dict[str, str] = {}

    @serve.multiplexed(max_num_models_per_replica=2)
    async def model(self, name: str) -> str:
        return name

    async def __call__(self, request: Any) -> Any:
        what = request.query_params.get("what")
        if what in VALUES:
            return VALUES[what][0]
        if what in CONTENT:
            return CONTENT[what]
        if what == "model":
            return await self.model(serve.get_multiplexed_model_id())
        try:
            await asyncio.sleep(float(what))  # the work itself
        except asyncio.CancelledError:
            self.ends[what] = "cancelled"
            raise
        self.ends[what] = "done"
        return "done"

    def end_of(self, what: str) -> str | None:
        return self.ends.get(what)


@pytest.fixture(scope="module")
def path(server: str) -> Iterator[str]:
    serve.run(Answers.bind(), name="details", route_prefix="/details")
    yield "/details"
    serve.delete("details")


@pytest.mark.parametrize("what", VALUES)
def test_values_become_json(http: httpx.Client, path: str, what: str) -> None:
    got = http.get(path, params={"what": what})
    assert (got.status_code, got.headers["content-type"]) == (200, "application/json"), got.text
    assert got.json() == VALUES[what][1]


@pytest.mark.parametrize("what", CONTENT)
def test_the_rest_is_text(http: httpx.Client, path: str, what: str) -> None:
    got = http.get(path, params={"what": what})
    assert got.headers["content-type"].partition(";")[0] == "text/plain"
    assert got.text == ("" if what == "nothing" else "ab")


def test_a_request_says_how_long_it_may_take(http: httpx.Client, path: str) -> None:
    got = http.get(path, params={"what": "30"}, headers={"x-request-timeout-seconds": "0.2"})
    assert got.status_code == 408 and "0.2" in got.text


@pytest.mark.parametrize("limit", ["0", "-1", "soon", "20"])
def test_limits_that_do_not_end_a_request(http: httpx.Client, path: str, limit: str) -> None:
    got = http.get(path, params={"what": "0.01"}, headers={"x-request-timeout-seconds": limit})
    assert (got.status_code, got.text) == (200, "done")


@pytest.mark.parametrize("header", ["serve_multiplexed_model_id", "serve-multiplexed-model-id"])
def test_the_model_with_either_spelling(http: httpx.Client, path: str, header: str) -> None:
    assert http.get(path, params={"what": "model"}, headers={header: "m1"}).text == "m1"


@pytest.mark.parametrize(("header", "what", "end"), [("?1", "0.61", "done"), ("?0", "0.62", "cancelled")])
def test_a_request_whose_client_disconnects(
    http: httpx.Client, path: str, header: str, what: str, end: str
) -> None:
    headers = {"x-request-disconnect-disabled": header}
    with pytest.raises(httpx.ReadTimeout):
        http.get(path, params={"what": what}, headers=headers, timeout=0.2)
    handle = serve.get_app_handle("details")
    assert wait_for(lambda: handle.end_of.remote(what).result(timeout_s=30)) == end
