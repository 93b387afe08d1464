"""Features of ASGI applications besides responses: lifespans, mounted applications, background tasks, middlewares."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, File, Form, Header, HTTPException, Request, UploadFile
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

import skate
from skate import serve

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number = sock.getsockname()[1]
    skate.init(num_cpus=2, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": number, "middlewares": [Middleware(Stamp, word="seen")]})
    with httpx.Client(base_url=f"http://127.0.0.1:{number}", timeout=30, trust_env=False) as client:
        yield client
    serve.shutdown()
    skate.shutdown()


class Stamp:
    """A plain ASGI middleware that adds a header."""

    def __init__(self, app: Any, word: str) -> None:
        self.app = app
        self.word = word

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-stamp", self.word.encode())]
            await send(message)

        await self.app(scope, receive, sending)


def checked(x_token: str = Header(default="")) -> str:
    if x_token != "right":
        raise HTTPException(401, "the header x-token is wrong")
    return x_token


def test_lifespan_dependencies_and_background_tasks(http: httpx.Client, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note(word: str) -> None:
        with log.open("a") as file:
            file.write(word + "\n")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        note("up")
        yield {"pool": "of connections"}
        note("down")

    async def session() -> AsyncIterator[str]:
        note("opened")
        try:
            yield "session"
        finally:
            note("closed")

    app = FastAPI(lifespan=lifespan)

    @serve.deployment(name="All", **LIGHT)
    @serve.ingress(app)
    class All:
        def __init__(self) -> None:
            self.word = "of the class"

        @app.get("/state")
        async def state(self, request: Request) -> str:
            return f"{request.state.pool} {self.word}"

        @app.get("/session", dependencies=[Depends(checked)])
        async def with_session(self, got: str = Depends(session)) -> str:
            return got

        @app.post("/later")
        async def later(self, tasks: BackgroundTasks) -> str:
            tasks.add_task(note, "background")
            return "at once"

    serve.run(All.bind(), name="all", route_prefix="/all")
    assert http.get("/all/state").json() == "of connections of the class"
    assert http.get("/all/session").status_code == 401
    assert http.get("/all/session", headers={"x-token": "right"}).json() == "session"
    assert http.post("/all/later").json() == "at once"
    assert http.get("/all/state").headers["x-stamp"] == "seen"
    serve.delete("all")
    words = log.read_text().split()
    assert words[0] == "up" and words[-1] == "down", words
    assert words.index("opened") < words.index("closed") and "background" in words


def test_uploads_exception_handlers_and_mounted_applications(http: httpx.Client) -> None:
    sub = FastAPI()

    @sub.get("/inner")
    def inner(request: Request) -> dict[str, str]:
        return {"inner": "yes", "root": request.scope["root_path"]}

    app = FastAPI()
    app.mount("/sub", sub)

    @app.exception_handler(ZeroDivisionError)
    async def divided(request: Request, error: ZeroDivisionError) -> JSONResponse:
        return JSONResponse({"wrong": "division"}, status_code=418)

    @serve.deployment(name="Forms", **LIGHT)
    @serve.ingress(app)
    class Forms:
        @app.post("/files")
        async def files(self, files: list[UploadFile], note: str = Form()) -> Any:
            return {"note": note, "files": {each.filename: len(await each.read()) for each in files}}

        @app.post("/raw")
        async def raw(self, file: bytes = File()) -> int:
            return len(file)

        @app.get("/divide")
        async def divide(self) -> float:
            return 1 / 0

    serve.run(Forms.bind(), name="forms", route_prefix="/forms")
    uploads = [("files", ("a.txt", b"a" * 10)), ("files", ("b.bin", b"b" * 300_000))]
    got = http.post("/forms/files", files=uploads, data={"note": "two"}).json()
    assert got == {"note": "two", "files": {"a.txt": 10, "b.bin": 300_000}}
    assert http.post("/forms/files", data={"note": "none"}).status_code == 422
    assert http.post("/forms/raw", files={"file": b"x" * 77}).json() == 77
    assert http.get("/forms/divide").status_code == 418
    assert http.get("/forms/sub/inner").json() == {"inner": "yes", "root": "/forms/sub"}
    serve.delete("forms")


def test_a_lifespan_that_fails(http: httpx.Client) -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        raise ConnectionError("no database at db:5432")
        yield

    app = FastAPI(lifespan=lifespan)

    @serve.deployment(name="Fails", **LIGHT)
    @serve.ingress(app)
    class Fails: ...

    with pytest.raises(RuntimeError, match="no database at db:5432"):
        serve.run(Fails.bind(), name="fails", route_prefix="/fails")
    serve.delete("fails")


def test_starlette_with_mounts(http: httpx.Client) -> None:
    def leaf(request: Any) -> PlainTextResponse:
        return PlainTextResponse(f"{request.path_params['name']} at {request.url_for('leaf', name='x').path}")

    app = Starlette(routes=[Mount("/deep", routes=[Route("/{name}", leaf, name="leaf")])])

    @serve.deployment(name="Star", **LIGHT)
    @serve.ingress(app)
    class Star: ...

    serve.run(Star.bind(), name="star", route_prefix="/star")
    assert http.get("/star/deep/one").text == "one at /star/deep/x"
    assert http.get("/star/shallow").status_code == 404
    serve.delete("star")


def test_plain_asgi(http: httpx.Client) -> None:
    """An ASGI application without lifespan support that reads its body in pieces."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 203, "headers": [(b"x-own", b"yes")]})
        await send({"type": "http.response.body", "body": b"got ", "more_body": True})
        await send({"type": "http.response.body", "body": str(size).encode()})

    @serve.deployment(name="Raw", **LIGHT)
    @serve.ingress(app)
    class Raw: ...

    serve.run(Raw.bind(), name="raw", route_prefix="/raw")
    got = http.post("/raw/any", content=b"z" * 1_000_000)
    assert (got.status_code, got.text, got.headers["x-own"]) == (203, "got 1000000", "yes")
    serve.delete("raw")


def test_an_application_that_a_function_builds(http: httpx.Client) -> None:
    def build() -> FastAPI:
        app = FastAPI()

        @app.get("/")
        def root() -> str:
            return "built there"

        return app

    @serve.deployment(name="Built", **LIGHT)
    @serve.ingress(build)
    class Built: ...

    serve.run(Built.bind(), name="built", route_prefix="/built")
    assert http.get("/built/").json() == "built there"
    serve.delete("built")
