"""The front over real sockets: cut requests, rolling updates, missing replicas, slow and greedy clients."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attack.clients import Clients, read_answer
from attack.corpus import served

import skate
from skate import serve

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
BODY_MAX = 1 << 20


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}; last: {value!r}"
        pause.wait(0.01)
    return value


def echo(name: str, **options: Any) -> Any:
    @serve.deployment(name=f"Echo{name}", **LIGHT, **options)
    class Echo:
        async def __call__(self, request: Any) -> str:
            body = await request.body()
            return f"{name}|{request.query_params.get('id', '')}|{len(body)}"

    return Echo.bind()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        found: int = sock.getsockname()[1]
        return found


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    skate.init(num_cpus=8, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(
        http_options={
            "port": number,
            "max_request_body_bytes": BODY_MAX,
            "request_head_timeout_s": 2,
            "request_body_timeout_s": 2,
            "unread_answer_timeout_s": 2,
        }
    )
    serve.run(echo("a"), name="a", route_prefix="/")
    serve.run(echo("b"), name="b", route_prefix="/b")
    yield number
    serve.shutdown()
    skate.shutdown()


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(port: int, *parts: bytes) -> tuple[int, bytes]:
    """Send parts as separate segments, and read a response."""
    with connect(port) as sock:
        for part in parts:
            sock.sendall(part)
            # The test cannot detect when the server has read a part. Reading two parts together is an easier case.
            time.sleep(0.02)
        with sock.makefile("rb") as file:
            return read_answer(file)


def test_what_the_attack_found(port: int) -> None:
    agent = b"GET /b HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 "
    assert ask(port, agent, b"(X11; Linux x86_64) q\r\n\r\n") == (200, b"b||0")
    header = b"GET /b?id=1 HTTP/1.1\r\nHost: x\r\nX: "
    assert ask(port, header, b"GET /?id=SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 400  # two hosts
    assert ask(port, header, b"GET /?id=SMUGGLED HTTP/1.1\r\n\r\n") == (200, b"b|1|0")
    cookie = b"GET /b HTTP/1.1\r\nHost: x\r\nCookie: " + b"a b; " * 12_000 + b"\r\n\r\n"
    assert ask(port, cookie) == (200, b"b||0")
    assert ask(port, cookie.replace(b"a b; ", b"a b; " * 7))[0] == 431


def test_requests_cut_everywhere_over_sockets(port: int) -> None:
    """A thousand connections, a hundred at a time. All first parts are sent before the second parts."""
    cut = [(each, place) for each in served("/b")[:6] for place in range(1, len(each.data))][:1000]
    for begin in range(0, len(cut), 100):
        batch = cut[begin : begin + 100]
        socks = [connect(port) for _ in batch]
        for sock, (request, place) in zip(socks, batch, strict=True):
            sock.sendall(request.data[:place])
        time.sleep(0.05)  # so that the server reads the parts one by one
        for sock, (request, place) in zip(socks, batch, strict=True):
            sock.sendall(request.data[place:])
        for sock, (request, place) in zip(socks, batch, strict=True):
            with sock.makefile("rb") as file:
                status, body = read_answer(file)
                ident = "1" if "id=1" in request.query else ""
                assert (status, body) == (200, f"b|{ident}|{len(request.body)}".encode()), (
                    request.name,
                    place,
                )
            sock.close()


def test_pipelined_requests_for_two_applications(port: int) -> None:
    with connect(port) as sock:
        requests = [(b"/b" if each % 3 else b"/", each) for each in range(60)]
        sock.sendall(b"".join(b"GET %b?id=%d HTTP/1.1\r\nHost: x\r\n\r\n" % one for one in requests))
        with sock.makefile("rb") as file:
            got = [read_answer(file) for _ in requests]
    assert got == [(200, b"%b|%d|0" % (b"b" if path == b"/b" else b"a", each)) for path, each in requests]


def updates(port: int, clients: int, rounds: int) -> tuple[int, list[str]]:
    """Rolling updates of both applications while clients cut and pipeline their requests."""
    with Clients(port, clients, {"/": "a", "/b": "b"}) as clients_of_both:
        for each in range(rounds):
            before = clients_of_both.right
            wait_for(lambda before=before: clients_of_both.right > before + 20, "answers")  # type: ignore[misc]
            serve.run(echo("a", version=f"a{each}"), name="a", route_prefix="/")
            serve.run(echo("b", version=f"b{each}", num_replicas=1 + each % 2), name="b", route_prefix="/b")
        before = clients_of_both.right
        wait_for(lambda: clients_of_both.right > before + 20, "answers after the last update")
    return clients_of_both.right, clients_of_both.wrong


def test_rolling_updates_cost_no_request_that_is_cut_or_pipelined(port: int) -> None:
    right, wrong = updates(port, 32, 2)
    assert wrong == []
    assert right > 60


@pytest.mark.attack
@pytest.mark.timeout(900)
def test_many_rolling_updates_cost_no_request_that_is_cut_or_pipelined(port: int) -> None:
    right, wrong = updates(port, 32, 40)
    print(f"{right} right answers")
    assert wrong == []


def test_an_update_finds_connections_with_half_a_head(port: int) -> None:
    head = b"GET /b?id=7 HTTP/1.1\r\nHost: x\r\nUser-Agent: a b c\r\n\r\n"
    socks = [connect(port) for _ in range(20)]
    for number, sock in enumerate(socks):
        if number % 2:  # a kept connection
            sock.sendall(head)
            with sock.makefile("rb") as file:
                assert read_answer(file) == (200, b"b|7|0")
        sock.sendall(head[: 2 + 2 * number])
    serve.run(echo("b", version="half"), name="b", route_prefix="/b")
    for number, sock in enumerate(socks):
        sock.sendall(head[2 + 2 * number :])
        with sock.makefile("rb") as file:
            assert read_answer(file) == (200, b"b|7|0"), number
        sock.close()


# -- missing replicas


def at_zero(name: str, seconds: float = 0) -> Any:
    @serve.deployment(name=name, autoscaling_config={"min_replicas": 0, "max_replicas": 1}, **LIGHT)
    class Zero:
        def __init__(self) -> None:
            time.sleep(seconds)  # a slow constructor

        async def __call__(self, request: Any) -> str:
            return f"{name}|{len(await request.body())}"

    return Zero.bind()


def test_an_application_that_starts_at_zero_is_served_from_the_first_request_on(port: int) -> None:
    serve.run(at_zero("Z"), name="z", route_prefix="/z")
    started = time.monotonic()
    assert ask(port, b"GET /z HTTP/1.1\r\nHost: x\r\n\r\n") == (200, b"Z|0")
    assert time.monotonic() - started < 20
    serve.delete("z")


def test_several_first_requests_wait_for_the_replica_and_all_are_served(port: int) -> None:
    serve.run(at_zero("Y", 0.5), name="y", route_prefix="/y")
    socks = [connect(port) for _ in range(10)]
    for number, sock in enumerate(socks):
        body = b"x" * number * 10_000
        sock.sendall(b"POST /y HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
        threading.Thread(target=sock.sendall, args=(body,), daemon=True).start()
    for number, sock in enumerate(socks):
        with sock.makefile("rb") as file:
            assert read_answer(file) == (200, b"Y|%d" % (number * 10_000))
        sock.close()
    serve.delete("y")


def test_a_body_over_the_limit_does_not_wait_for_a_replica(port: int) -> None:
    serve.run(at_zero("X", 1), name="x", route_prefix="/x")
    with connect(port) as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 400000000\r\n\r\n" + b"x" * 100_000)
        with sock.makefile("rb") as file:
            status, text = read_answer(file)
    assert status == 413
    assert b"400,000,000" in text
    assert b"1,048,576" in text
    serve.delete("x")


def test_little_of_a_body_is_read_while_it_waits_for_a_replica(port: int) -> None:
    """Unread data stays with the client: its sending stops."""
    serve.run(at_zero("W", 2), name="w", route_prefix="/w")
    with connect(port) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        sock.sendall(b"POST /w HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sock.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 400:
                sock.sendall(chunk)
                sent += 1
        assert sent < 200  # 64 KiB each, most of them in the kernel's buffers
    serve.delete("w")


# -- clients that are slow, or do not read


def closed(sock: socket.socket) -> bytes:
    """Read until the server closes."""
    sock.settimeout(20)
    got = b""
    while part := sock.recv(65536):
        got += part
    return got


def test_a_head_that_does_not_come_is_waited_for_so_long_only(port: int) -> None:
    started = time.monotonic()
    with connect(port) as silent, connect(port) as half, connect(port) as kept:
        half.sendall(b"GET / HTTP/1.1\r\nHost:")
        kept.sendall(b"GET /?id=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        with kept.makefile("rb") as file:
            assert read_answer(file) == (200, b"a|1|0")
        kept.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert closed(silent) == b""
        assert closed(half).startswith(b"HTTP/1.1 408 ")
        assert closed(kept).startswith(b"HTTP/1.1 408 ")
    assert 1 < time.monotonic() - started < 15


def test_a_head_by_the_byte_has_no_more_time(port: int) -> None:
    with connect(port) as sock:
        started = time.monotonic()
        stop = threading.Event()

        def drip() -> None:
            try:
                while not stop.wait(0.1):
                    sock.sendall(b"a")
            except OSError:
                pass

        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        try:
            assert closed(sock).startswith(b"HTTP/1.1 408 ")
        finally:
            stop.set()
            dripping.join()
    assert time.monotonic() - started < 15


def test_a_body_that_stops_coming_is_given_up(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert closed(sock).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_slowly_is_waited_for(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            sock.sendall(b"x")
            time.sleep(0.5)  # four seconds in all, over the limit between two pieces
        with sock.makefile("rb") as file:
            assert read_answer(file) == (200, b"a||8")


def test_answers_that_nobody_reads_end_their_connection(port: int) -> None:
    @serve.deployment(name="Large", **LIGHT)
    class Large:
        async def __call__(self, request: Any) -> bytes:
            return b"x" * 10_000_000

    serve.run(Large.bind(), name="large", route_prefix="/large")
    with connect(port) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 50)

        def gone() -> bool:
            try:
                sock.sendall(b"x")
            except OSError:
                return True
            return False

        wait_for(gone, "the server to close")
    serve.delete("large")


# -- TLS


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Create a key and a self-signed certificate."""
    import subprocess

    folder = tmp_path_factory.mktemp("tls")
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    try:
        subprocess.run([*words, "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate, and is not installed")
    return key, certificate


def test_cut_and_pipelined_requests_over_tls(tls_files: tuple[str, str], port: int) -> None:
    """Must run last in this module, because it ends the Serve of the other tests."""
    serve.shutdown()
    key, certificate = tls_files
    number = free_port()
    serve.start(http_options={"port": number, "ssl_keyfile": key, "ssl_certfile": certificate})
    serve.run(echo("a"), name="a", route_prefix="/")
    serve.run(echo("b"), name="b", route_prefix="/b")
    around = ssl.create_default_context()
    around.check_hostname = False
    around.verify_mode = ssl.CERT_NONE
    request = b"GET /b?id=3 HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 (X11) q\r\n\r\n"
    other = b"GET /?id=4 HTTP/1.1\r\nHost: x\r\n\r\n"
    for place in range(1, len(request), 6):
        with around.wrap_socket(connect(number)) as sock:
            sock.sendall(request[:place])
            time.sleep(0.01)  # so that the parts are read one by one
            sock.sendall(request[place:] + other + request)
            with sock.makefile("rb") as file:
                got = [read_answer(file) for _ in range(3)]
            assert got == [(200, b"b|3|0"), (200, b"a|4|0"), (200, b"b|3|0")], place
