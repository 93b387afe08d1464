"""HTTP without a framework: a class or function that takes a Starlette Request."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(max_ongoing_requests=100, **LIGHT)
class Plain:
    async def __call__(self, request: Request) -> Any:
        what = request.query_params.get("what", "text")
        return await getattr(self, "do_" + what)(request)

    async def do_text(self, request: Request) -> Any:
        return "text"

    async def do_dict(self, request: Request) -> Any:
        return {"a": [1, 2.5, None, True], "é": "ü"}

    async def do_list(self, request: Request) -> Any:
        return [1, 2]

    async def do_none(self, request: Request) -> Any:
        return None

    async def do_number(self, request: Request) -> Any:
        return 42

    async def do_bytes(self, request: Request) -> Any:
        return b"\x00\x01"

    async def do_response(self, request: Request) -> Any:
        return Response("made", status_code=201, headers={"x-own": "yes"}, media_type="text/x-own")

    async def do_json_response(self, request: Request) -> Any:
        return JSONResponse({"ok": True}, status_code=202)

    async def do_body(self, request: Request) -> Any:
        return {"length": len(await request.body())}

    async def do_json(self, request: Request) -> Any:
        return await request.json()

    async def do_method(self, request: Request) -> Any:
        return request.method

    async def do_path(self, request: Request) -> Any:
        return [request.url.path, request.scope["root_path"]]

    async def do_header(self, request: Request) -> Any:
        return request.headers.get("x-mine")

    async def do_fail(self, request: Request) -> Any:
        raise RuntimeError("a secret that no client sees")

    async def do_model(self, request: Request) -> Any:
        return serve.get_multiplexed_model_id()

    async def do_form(self, request: Request) -> Any:
        form = await request.form()
        file = form["file"]
        return [form["name"], file.filename, len(await file.read())]

    async def do_stream(self, request: Request) -> Any:
        async def parts() -> Any:
            for i in range(5):
                yield f"{i},"

        return StreamingResponse(parts(), media_type="text/plain")

    async def do_cookies(self, request: Request) -> Any:
        response = PlainTextResponse(request.cookies.get("taste", "none"))
        response.set_cookie("taste", "sweet")
        return response

    async def do_client(self, request: Request) -> Any:
        return request.client.host if request.client else None


@pytest.fixture(scope="module")
def ask(server: str, http: httpx.Client) -> Iterator[Callable[..., httpx.Response]]:
    serve.run(Plain.bind(), name="plain", route_prefix="/plain")

    def get(what: str, method: str = "GET", path: str = "/plain", **options: Any) -> httpx.Response:
        return http.request(method, path, params={"what": what}, **options)

    yield get
    serve.delete("plain")


Ask = Callable[..., httpx.Response]


def test_text(ask: Ask) -> None:
    got = ask("text")
    assert (got.status_code, got.text) == (200, "text")
    assert got.headers["content-type"].startswith("text/plain")


def test_dict(ask: Ask) -> None:
    got = ask("dict")
    assert got.json() == {"a": [1, 2.5, None, True], "é": "ü"}
    assert got.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(("what", "value"), [("list", [1, 2]), ("number", 42)])
def test_json_values(ask: Ask, what: str, value: Any) -> None:
    assert ask(what).json() == value


def test_nothing_is_an_empty_body(ask: Ask) -> None:
    got = ask("none")
    assert (got.status_code, got.content) == (200, b"")


def test_bytes(ask: Ask) -> None:
    assert ask("bytes").content == b"\x00\x01"


def test_response(ask: Ask) -> None:
    got = ask("response")
    assert (got.status_code, got.text, got.headers["x-own"]) == (201, "made", "yes")
    assert got.headers["content-type"].startswith("text/x-own")


def test_json_response(ask: Ask) -> None:
    got = ask("json_response")
    assert (got.status_code, got.json()) == (202, {"ok": True})


@pytest.mark.parametrize("size", [0, 1, 10_000, 2_000_000])
def test_bodies(ask: Ask, size: int) -> None:
    assert ask("body", "POST", content=b"z" * size).json() == {"length": size}


def test_body_in_pieces(ask: Ask) -> None:
    assert ask("body", "POST", content=iter([b"a" * 1000] * 50)).json() == {"length": 50_000}


def test_json_body(ask: Ask) -> None:
    assert ask("json", "POST", json={"x": [1]}).json() == {"x": [1]}


def test_malformed_json(ask: Ask) -> None:
    assert ask("json", "POST", content=b"{oh").status_code == 500


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_methods(ask: Ask, method: str) -> None:
    assert ask("method", method).text == method


def test_path_under_the_prefix(ask: Ask) -> None:
    path, root = ask("path", path="/plain/a/b").json()
    assert path == "/plain/a/b" and root == "/plain"


def test_paths_below_reach_the_ingress(ask: Ask) -> None:
    assert ask("text", path="/plain/any/where").status_code == 200


def test_prefix_must_match_whole_words(ask: Ask) -> None:
    assert ask("text", path="/plainer").status_code == 404


def test_unknown_path(http: httpx.Client, ask: Ask) -> None:
    assert http.get("/nothing/here").status_code == 404


def test_headers(ask: Ask) -> None:
    assert ask("header", headers={"X-Mine": "value"}).text == "value"


def test_failure_is_500(ask: Ask) -> None:
    assert ask("fail").status_code == 500


def test_failure_tells_no_secret(ask: Ask) -> None:
    assert "secret" not in ask("fail").text


def test_failure_says_internal_server_error(ask: Ask) -> None:
    assert "Internal Server Error" in ask("fail").text


def test_it_serves_on_after_a_failure(ask: Ask) -> None:
    ask("fail")
    assert ask("text").text == "text"


def test_model_id_by_header(ask: Ask) -> None:
    assert ask("model", headers={"serve_multiplexed_model_id": "m7"}).text == "m7"


def test_upload(ask: Ask) -> None:
    got = ask("form", "POST", data={"name": "n"}, files={"file": ("f.bin", b"q" * 70_000)})
    assert got.json() == ["n", "f.bin", 70_000]


def test_stream(ask: Ask) -> None:
    assert ask("stream").text == "0,1,2,3,4,"


def test_cookies(ask: Ask) -> None:
    got = ask("cookies", headers={"cookie": "taste=sour"})
    assert got.text == "sour" and got.cookies["taste"] == "sweet"


def test_client_address(ask: Ask) -> None:
    assert ask("client").text == "127.0.0.1"


def test_request_id_comes_back(ask: Ask) -> None:
    assert ask("text", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"


def test_request_id_is_made(ask: Ask) -> None:
    first, second = ask("text"), ask("text")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_many_at_once(ask: Ask) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert {each.text for each in pool.map(lambda _: ask("text"), range(200))} == {"text"}


def test_healthz(http: httpx.Client, ask: Ask) -> None:
    got = http.get("/-/healthz")
    assert (got.status_code, got.text) == (200, "success")


def test_routes(http: httpx.Client, ask: Ask) -> None:
    assert http.get("/-/routes").json()["/plain"] == "plain"


def test_function(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    def answer(request: Request) -> str:
        return "of a function " + request.query_params["q"]

    deploy(answer.bind(), "function")
    assert http.get("/function?q=1").text == "of a function 1"


def test_async_function(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    async def answer(request: Request) -> Any:
        return {"q": (await request.json())["q"]}

    deploy(answer.bind(), "async-function")
    assert http.post("/async-function", content=json.dumps({"q": 3})).json() == {"q": 3}


def test_no_parameters(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    class Bare:
        def __call__(self) -> str:
            return "bare"

    deploy(Bare.bind(), "bare")
    assert http.get("/bare").text == "bare"


def test_no_route(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    class Hidden:
        def __call__(self) -> str:
            return "by handle only"

    handle = deploy(Hidden.bind(), "hidden", route_prefix=None)
    assert handle.remote().result() == "by handle only"
    assert http.get("/hidden").status_code == 404
    assert "hidden" not in http.get("/-/routes").json().values()


def test_longest_prefix_wins(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    class Says:
        def __init__(self, word: str) -> None:
            self.word = word

        def __call__(self, request: Request) -> str:
            return self.word

    deploy(Says.bind("outer"), "outer", route_prefix="/long")
    deploy(Says.bind("inner"), "inner", route_prefix="/long/er")
    got = [http.get(path).text for path in ("/long", "/long/er", "/long/er/x", "/long/e")]
    assert got == ["outer", "inner", "inner", "outer"]


def test_two_applications_on_one_connection(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    def one(request: Request) -> str:
        return "one"

    @serve.deployment(**LIGHT)
    def two(request: Request) -> str:
        return "two"

    deploy(one.bind(), "one")
    deploy(two.bind(), "two")
    with httpx.Client(base_url=http.base_url, trust_env=False) as client:
        assert [client.get(path).text for path in ("/one", "/two") * 4] == ["one", "two"] * 4


def test_after_delete_the_path_is_gone(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    def short(request: Request) -> str:
        return "short"

    deploy(short.bind(), "short")
    assert http.get("/short").text == "short"
    serve.delete("short")
    assert http.get("/short").status_code == 404


def test_root_prefix(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    def root(request: Request) -> str:
        return "root " + request.url.path

    deploy(root.bind(), "root", route_prefix="/")
    assert http.get("/some/where").text == "root /some/where"
    assert http.get("/-/healthz").text == "success"


def test_a_replica_whose_process_ends_in_a_request(deploy: Any, server: str) -> None:
    @serve.deployment(**LIGHT)
    def end(request: Any) -> None:
        os._exit(1)

    deploy(end.bind(), route_prefix="/end")
    with httpx.Client(trust_env=False, timeout=20) as client:
        assert client.get(f"{server}/end").status_code == 500
