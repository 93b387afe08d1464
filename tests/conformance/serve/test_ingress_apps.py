"""Which application `@serve.ingress` takes, and which of its routes a class serves."""

# No annotations as text here: FastAPI reads them, and Ray loses the module that they would be looked up in.
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from ray import serve
from starlette.responses import PlainTextResponse

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


def test_one_app_for_two_classes_serves_the_routes_of_each(
    http: httpx.Client, deploy: Callable[..., Any]
) -> None:
    app = FastAPI()

    @app.get("/both")
    def both() -> str:
        return "both"

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/a")
        def a(self) -> str:
            return "a"

        @app.get("/same")
        def same(self) -> str:
            return "same of a"

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class B:
        @app.get("/b")
        def b(self) -> str:
            return "b"

        @app.get("/same")
        def same(self) -> str:
            return "same of b"

    deploy(A.bind(), route_prefix="/one")
    deploy(B.bind(), route_prefix="/two")
    found = [
        http.get(path) for path in ("/one/a", "/two/b", "/one/same", "/two/same", "/one/both", "/two/both")
    ]
    assert [each.json() for each in found] == ["a", "b", "same of a", "same of b", "both", "both"]
    assert [http.get(path).status_code for path in ("/one/b", "/two/a")] == [404, 404]


def test_an_application_has_one_ingress(deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    @serve.ingress(FastAPI())
    class Web:
        def __init__(self, inner: Any = None) -> None:
            self.inner = inner

    with pytest.raises(
        serve.exceptions.RayServeException, match="Found multiple FastAPI deployments in application"
    ):
        deploy(Web.bind(Web.options(name="Inner").bind()))


def test_an_address_by_its_older_name(http: httpx.Client) -> None:
    with pytest.raises(ValueError, match="http_port is deprecated, please use serve.start"):
        serve.start(http_port=8000)


def test_two_routes_on_methods_of_one_name(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app = FastAPI()

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        def __init__(self) -> None:
            self.word = "word"

        @app.get("/")
        def method(self) -> str:
            return "get " + self.word

        @app.post("/")
        def method(self) -> str:  # noqa: F811
            return "post " + self.word

    deploy(A.bind(), route_prefix="/names")
    assert http.get("/names/").json() == "get word"
    assert http.post("/names/").json() == "post word"


def test_an_app_with_included_routers(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app, router, inner = FastAPI(), APIRouter(), APIRouter(prefix="/inner")

    @inner.get("/deep")
    def deep() -> str:
        return "deep"

    @router.get("/items/{number}")
    def item(number: int) -> int:
        return number + 1

    router.include_router(inner)
    app.include_router(router, prefix="/r")

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/own")
        def own(self) -> str:
            return type(self).__name__

    deploy(A.bind(), route_prefix="/included")
    assert http.get("/included/r/items/3").json() == 4
    assert http.get("/included/r/inner/deep").json() == "deep"
    assert http.get("/included/own").json() == "A"
    assert http.get("/included/r/items/x").status_code == 422


def test_methods_on_the_routes_of_an_included_router(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app, router = FastAPI(), APIRouter()

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        def __init__(self) -> None:
            self.base = 40

        @router.get("/plus/{number}")
        def plus(self, number: int) -> int:
            return self.base + number

        app.include_router(router, prefix="/r")

    deploy(A.bind(), route_prefix="/methods")
    assert http.get("/methods/r/plus/2").json() == 42


def test_methods_of_a_base_class(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app = FastAPI()

    class Base:
        @app.get("/base")
        def base(self) -> str:
            return type(self).__name__

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class Child(Base):
        @app.get("/child")
        def child(self) -> str:
            return "child"

    deploy(Child.bind(), route_prefix="/bases")
    assert [http.get(f"/bases/{name}").json() for name in ("base", "child")] == ["Child", "child"]


def test_ingress_without_a_class(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app = FastAPI()

    @app.get("/")
    def root() -> str:
        return "alone"

    deploy(serve.deployment(**LIGHT)(serve.ingress(app)()).bind(), route_prefix="/alone")
    assert http.get("/alone/").json() == "alone"


def test_ingress_of_a_builder_without_a_class(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    class Sub:
        def __call__(self) -> str:
            return "sub"

    def build() -> FastAPI:
        app = FastAPI()

        def handle() -> Any:
            return serve.get_deployment_handle("Sub", app_name="built")

        @app.get("/")
        async def root(handle: Any = Depends(handle)) -> str:
            return "built of " + await handle.remote()

        return app

    app = serve.deployment(**LIGHT)(serve.ingress(build)()).bind(Sub.bind())
    deploy(app, "built", route_prefix="/built")
    assert http.get("/built/").json() == "built of sub"


def test_ingress_without_an_app_calls_the_method_that_makes_it(
    http: httpx.Client, deploy: Callable[..., Any]
) -> None:
    @serve.deployment(**LIGHT)
    @serve.ingress()
    class Late:
        def __init__(self, word: str) -> None:
            self.word = word

        async def __serve_build_asgi_app__(self) -> Any:
            app = FastAPI()
            app.get("/")(self.root)
            return app

        async def root(self) -> str:
            return self.word

    deploy(Late.bind("late"), route_prefix="/late")
    assert http.get("/late/").json() == "late"


def test_routes_added_after_the_decorator_are_not_served(
    http: httpx.Client, deploy: Callable[..., Any]
) -> None:
    app = FastAPI()

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/before")
        def before(self) -> str:
            return "before"

    @app.get("/after")
    def after() -> str:
        return "after"

    deploy(A.bind(), route_prefix="/frozen")
    assert [http.get(f"/frozen/{path}").status_code for path in ("before", "after")] == [200, 404]


def test_an_app_with_middleware_state_and_locks(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app = FastAPI()
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    app.state.lock = threading.Lock()

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/")
        def root(self) -> bool:
            with app.state.lock:
                return True

    deploy(A.bind(), route_prefix="/locks")
    answer = http.get("/locks/", headers={"origin": "http://elsewhere"})
    assert answer.json() is True and answer.headers["access-control-allow-origin"] == "*"


def test_a_mounted_application(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    app, sub = FastAPI(), FastAPI()

    @sub.get("/hi")
    def hi() -> str:
        return "hi"

    app.mount("/sub", sub)

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        pass

    deploy(A.bind(), route_prefix="/mounts")
    assert http.get("/mounts/sub/hi").json() == "hi"


def test_any_asgi_application(http: httpx.Client, deploy: Callable[..., Any]) -> None:
    class Plain:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await PlainTextResponse(scope["path"] + " under " + scope["root_path"])(scope, receive, send)

    @serve.deployment(**LIGHT)
    @serve.ingress(Plain())
    class A:
        pass

    deploy(A.bind(), route_prefix="/asgi")
    assert http.get("/asgi/x").text == "/asgi/x under /asgi"


def test_methods_of_an_ingress_by_handle(deploy: Callable[..., Any]) -> None:
    app = FastAPI()

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/double")
        def double(self, number: int) -> int:
            return 2 * number

    handle = deploy(A.bind(), route_prefix="/by-handle")
    assert handle.double.remote(4).result() == 8


def test_the_documentation_has_the_routes_of_the_class(
    http: httpx.Client, deploy: Callable[..., Any]
) -> None:
    app = FastAPI(title="Titled", version="7")

    @serve.deployment(**LIGHT)
    @serve.ingress(app)
    class A:
        @app.get("/items/{number}", tags=["numbers"])
        def item(self, number: int, q: str = "x") -> int:
            """An item."""
            return number

    deploy(A.bind(), route_prefix="/documented")
    schema = http.get("/documented/openapi.json").json()
    assert schema["info"] == {"title": "Titled", "version": "7"} and list(schema["paths"]) == [
        "/items/{number}"
    ]
    operation = schema["paths"]["/items/{number}"]["get"]
    assert [each["name"] for each in operation["parameters"]] == ["number", "q"]
    assert operation["tags"] == ["numbers"] and operation["description"] == "An item."
    assert "/documented/openapi.json" in http.get("/documented/docs").text


# -- what the decorator refuses, and keeps


def test_ingress_of_what_is_no_class() -> None:
    def function() -> None: ...

    with pytest.raises(ValueError, match="must be used with a class"):
        serve.ingress(FastAPI())(function)


def test_ingress_above_a_deployment() -> None:
    @serve.deployment
    class A:
        pass

    with pytest.raises(ValueError, match="must be used with a class"):
        serve.ingress(FastAPI())(A)


def test_ingress_of_a_class_with_call() -> None:
    class A:
        def __call__(self) -> None: ...

    with pytest.raises(ValueError, match="may not have __call__ method"):
        serve.ingress(FastAPI())(A)


def test_ingress_of_a_class_that_inherits_call() -> None:
    class Base:
        def __call__(self) -> None: ...

    class A(Base):
        pass

    with pytest.raises(ValueError, match="may not have __call__ method"):
        serve.ingress(FastAPI())(A)


def test_ingress_without_an_app_or_a_method_that_makes_it() -> None:
    class A:
        pass

    with pytest.raises(
        ValueError, match="called without an app argument requires A to define `__serve_build_asgi_app__`"
    ):
        serve.ingress()(A)


def test_ingress_of_a_method_without_self() -> None:
    app = FastAPI()

    class A:
        @app.get("/")
        def root() -> None:  # type: ignore[misc]
            ...

    with pytest.raises(serve.exceptions.RayServeException, match="must have ``self`` as"):
        serve.ingress(app)(A)


def test_ingress_of_an_app_that_cannot_be_pickled() -> None:
    app = FastAPI()
    app.state.made = (each for each in ())

    class A:
        pass

    with pytest.raises(TypeError, match="Failed to serialize the ASGI app"):
        serve.ingress(app)(A)


class Documented:
    """Some text."""

    word: str = "word"
    number: int


@pytest.mark.parametrize(
    "name", ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "word"]
)
def test_ingress_keeps_what_the_class_says_of_itself(name: str) -> None:
    assert getattr(serve.ingress(FastAPI())(Documented), name) == getattr(Documented, name)


def test_ingress_makes_a_subclass() -> None:
    made = serve.ingress(FastAPI())(Documented)
    assert issubclass(made, Documented) and made is not Documented and made.__wrapped__ is Documented


def test_a_deployment_is_named_after_the_class() -> None:
    assert serve.deployment(serve.ingress(FastAPI())(Documented)).name == "Documented"
    assert serve.deployment(serve.ingress(FastAPI())()).name == "ASGIIngressDeployment"
