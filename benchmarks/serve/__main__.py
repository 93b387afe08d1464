"""Serve beside Ray Serve and bare uvicorn, in turn: `python -m benchmarks.serve [--rounds 3] [--ray PYTHON]`.

HTTP is asked by `wrk` (one thread), which has to be installed. Medians of the rounds.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 2
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wrk(url: str, connections: int, script: str = "", seconds: int = SECONDS) -> tuple[float, float]:
    """Requests a second, and the 99th percentile in milliseconds."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--timeout", "20", "--latency"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        if script:
            file.write(script)
            file.flush()
            words += ["-s", file.name]
        said = subprocess.run([*words, url], capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    slow = re.search(r"99%\s+([\d.]+)(us|ms|s)", said)
    if rate is None or slow is None or "Non-2xx" in said:
        return float("nan"), float("nan")
    return float(rate[1]), float(slow[1]) * UNITS[slow[2]]


def post(size: int) -> str:
    return f'wrk.method = "POST"\nwrk.path = "/body"\nwrk.body = string.rep("x", {size})\n'


def measure(target: str, python: str, path: str) -> dict[str, float]:
    """All figures of one target."""
    port = free_port()
    environment = os.environ | {"PYTHONPATH": path}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled
    process = subprocess.Popen(
        [python, str(HERE / "application.py"), target, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        line = process.stdout.readline()
        figures: dict[str, float] = json.loads(line or "{}")
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        for connections in (1, 32, 512):
            rate, slow = wrk(url + "/", connections)
            figures[f"no-op, {connections} connections, /s"] = rate
            figures[f"no-op, {connections} connections, p99 ms"] = slow
        figures["1 MB bodies, /s"] = wrk(url, 4, post(1_000_000))[0]
        figures["10 MB bodies, /s"] = wrk(url, 2, post(10_000_000))[0]
        figures["streams of 1,000 chunks, /s"] = wrk(url + "/stream", 4)[0]
        if target != "bare":
            figures["two deployments, 32 connections, /s"] = wrk(url + "/two", 32)[0]
        if target == "skate":
            figures["two deployments in one process, 32 connections, /s"] = wrk(url + "/near", 32)[0]
    finally:
        process.stdin.close()
        if target == "bare":
            process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", default="", help="an interpreter that has Ray")
    parser.add_argument("--ray-path", default="", help="PYTHONPATH for it")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed: apt-get install wrk")
    source = str(HERE.parents[1] / "src")
    targets = {"bare": (sys.executable, ""), "skate": (sys.executable, source)}
    if options.ray:
        targets["ray"] = (options.ray, options.ray_path)
    compileall.compile_dir(source, quiet=2)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in targets}
    for _ in range(options.rounds):
        for name, (python, path) in targets.items():
            for figure, value in measure(name, python, path).items():
                found[name].setdefault(figure, []).append(value)
    names = list(found)
    print("| figure | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for figure in dict.fromkeys(each for name in reversed(names) for each in found[name]):
        cells = [found[name].get(figure) for name in names]
        shown = [f"{statistics.median(cell):,.4g}" if cell else "" for cell in cells]
        print(f"| {figure} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
