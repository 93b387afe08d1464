"""`@serve.ingress`: FastAPI applications whose routes are methods, and WebSockets."""

# No annotations as text here: FastAPI reads them, and Ray loses the module that they would be looked up in.
import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException, Query, Response, UploadFile, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from ray import serve
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


class Item(BaseModel):
    name: str
    count: int = 1


app = FastAPI()


def common(limit: int = 10) -> int:
    return limit


@app.get("/plain-function")
async def plain_function() -> str:
    return "no self"


@serve.deployment(max_ongoing_requests=50, **LIGHT)
@serve.ingress(app)
class Web:
    def __init__(self, word: str) -> None:
        self.word = word
        self.calls = 0

    @app.get("/")
    def root(self) -> str:
        return self.word

    @app.get("/items/{number}")
    async def item(self, number: int, q: str = Query(default="none")) -> dict[str, Any]:
        return {"number": number, "q": q, "word": self.word}

    @app.post("/items", status_code=201)
    async def add(self, item: Item) -> Item:
        return Item(name=item.name + "!", count=item.count + 1)

    @app.get("/limit")
    async def limit(self, limit: int = Depends(common)) -> int:
        return limit

    @app.get("/missing")
    async def missing(self) -> None:
        raise HTTPException(404, "not here")

    @app.get("/fails")
    async def fails(self) -> None:
        raise RuntimeError("secret")

    @app.get("/header")
    async def header(self, response: Response) -> str:
        response.headers["x-own"] = "own"
        return "ok"

    @app.post("/upload")
    async def upload(self, file: UploadFile) -> dict[str, Any]:
        return {"name": file.filename, "size": len(await file.read())}

    @app.get("/stream")
    async def stream(self) -> StreamingResponse:
        async def parts() -> Any:
            for i in range(20):
                yield f"{self.word}{i}\n"

        return StreamingResponse(parts(), media_type="text/plain")

    @app.websocket("/socket")
    async def socket(self, socket: WebSocket) -> None:
        await socket.accept()
        text = await socket.receive_text()
        await socket.send_text(f"{self.word}:{text}")
        await socket.send_bytes(b"\x01\x02")
        await socket.close()

    @app.get("/count")
    async def count(self) -> int:
        self.calls += 1
        return self.calls

    async def direct(self, x: int) -> int:
        return x * 2


@pytest.fixture(scope="module")
def web(server: str) -> Iterator[Any]:
    handle = serve.run(Web.bind("word"), name="web", route_prefix="/web")
    yield handle
    serve.delete("web")


def test_method_with_self(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/").json() == "word"


def test_path_and_query(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/items/3?q=z").json() == {"number": 3, "q": "z", "word": "word"}


def test_wrong_path_parameter(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/items/three").status_code == 422


def test_model(web: Any, http: httpx.Client) -> None:
    got = http.post("/web/items", json={"name": "a"})
    assert (got.status_code, got.json()) == (201, {"name": "a!", "count": 2})


@pytest.mark.parametrize("body", [{}, {"name": 3, "count": "x"}, []])
def test_wrong_body(web: Any, http: httpx.Client, body: Any) -> None:
    assert http.post("/web/items", json=body).status_code == 422


def test_malformed_json(web: Any, http: httpx.Client) -> None:
    got = http.post("/web/items", content=b"{oh", headers={"content-type": "application/json"})
    assert got.status_code == 422


def test_dependency(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/limit?limit=4").json() == 4


def test_http_exception(web: Any, http: httpx.Client) -> None:
    got = http.get("/web/missing")
    assert (got.status_code, got.json()) == (404, {"detail": "not here"})


def test_failure(web: Any, http: httpx.Client) -> None:
    got = http.get("/web/fails")
    assert got.status_code == 500 and "secret" not in got.text


def test_response_header(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/header").headers["x-own"] == "own"


def test_upload(web: Any, http: httpx.Client) -> None:
    got = http.post("/web/upload", files={"file": ("a.txt", b"t" * 1000)})
    assert got.json() == {"name": "a.txt", "size": 1000}


def test_stream(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/stream").text == "".join(f"word{i}\n" for i in range(20))


def test_route_outside_of_the_class(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/plain-function").json() == "no self"


def test_unknown_route(web: Any, http: httpx.Client) -> None:
    assert http.get("/web/no/such").status_code == 404


def test_wrong_method(web: Any, http: httpx.Client) -> None:
    assert http.delete("/web/items").status_code == 405


def test_openapi_is_under_the_prefix(web: Any, http: httpx.Client) -> None:
    assert "/items/{number}" in http.get("/web/openapi.json").json()["paths"]


def test_docs(web: Any, http: httpx.Client) -> None:
    got = http.get("/web/docs")
    assert got.status_code == 200 and "/web/openapi.json" in got.text


def test_state(web: Any, http: httpx.Client) -> None:
    first = http.get("/web/count").json()
    assert http.get("/web/count").json() == first + 1


def test_methods_by_handle(web: Any) -> None:
    assert web.direct.remote(4).result() == 8


def test_websocket(web: Any, server: str) -> None:
    websockets = pytest.importorskip("websockets")

    async def talk() -> list[Any]:
        address = server.replace("http", "ws") + "/web/socket"
        async with websockets.connect(address, proxy=None) as socket:
            await socket.send("hi")
            return [await socket.recv(), await socket.recv()]

    assert asyncio.run(talk()) == ["word:hi", b"\x01\x02"]


def test_ingress_needs_a_class() -> None:
    with pytest.raises(ValueError):

        @serve.ingress(FastAPI())
        def function() -> None: ...


def test_a_starlette_application(deploy: Any, http: httpx.Client) -> None:
    async def hello(request: Any) -> Any:
        return PlainTextResponse("starlette")

    @serve.deployment(**LIGHT)
    @serve.ingress(Starlette(routes=[Route("/hello", hello)]))
    class Small:
        pass

    deploy(Small.bind(), "starlette")
    assert http.get("/starlette/hello").text == "starlette"


@pytest.mark.chosen_difference("a bare function of ASGI is an application too", id="D-serve-asgi-function")
def test_any_asgi_application(deploy: Any, http: httpx.Client) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"asgi"})

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class Bare:
        pass

    deploy(Bare.bind(), "asgi")
    assert http.get("/asgi").text == "asgi"
