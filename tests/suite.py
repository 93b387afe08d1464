"""The whole suite in two processes side by side: `make test`.

The tests wait for processes half of the time, and would leave one of two CPUs idle. So the folders of `BESIDE`, whose tests
use no fixed port and measure no delays, run in a process of their own with less priority than the rest. Its output follows
when both have ended, and the last line adds both up. With arguments that choose tests, or on one CPU, there is one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

BESIDE = (
    "tests/conformance/data",
    "tests/conformance/rllib",
    "tests/conformance/train",
    "tests/conformance/tune",
    "tests/data",
    "tests/rllib",
    "tests/simulation",
    "tests/train",
    "tests/tune",
)

#: Options that fit both processes; with any other argument there is one process.
FOR_BOTH = ("--color", "--durations", "--tb", "--timeout", "-q", "-v")

_NICE = 5


def two_processes(arguments: Sequence[str], cpus: int) -> bool:
    """Return True if the run is of the whole suite and there is a CPU for each half."""
    return cpus > 1 and all(argument.startswith(FOR_BOTH) for argument in arguments)


def closing_line(reports: Sequence[Path], seconds: float) -> str:
    """Return one line with the sums of pytest's `reports` (JUnit XML; a process that died has left none)."""
    counts: Counter[str] = Counter()
    for report in reports:
        if not report.exists():
            counts["errors"] += 1
            continue
        for suite in ElementTree.parse(report).iter("testsuite"):
            bad = {name: int(suite.attrib[name]) for name in ("failures", "errors", "skipped")}
            counts["failed"] += bad["failures"]
            counts["passed"] += int(suite.attrib["tests"]) - sum(bad.values())
            counts["skipped"] += bad["skipped"]
            counts["errors"] += bad["errors"]
    shown = [f"{counts[kind]} {kind}" for kind in ("failed", "passed", "skipped", "errors") if counts[kind]]
    return f"=== {', '.join(shown) or 'no tests ran'} in {seconds:.2f}s ==="


def main(arguments: Sequence[str]) -> int:
    """Run pytest, in two processes for the whole suite, and return the exit status."""
    pytest = [sys.executable, "-m", "pytest", *arguments]
    if not two_processes(arguments, len(os.sched_getaffinity(0))):
        return subprocess.call(pytest)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder, "first.xml"), Path(folder, "beside.xml")]
        output = Path(folder, "beside.txt")
        ignored = [f"--ignore={name}" for name in BESIDE]
        first = subprocess.Popen([*pytest, f"--junit-xml={reports[0]}", *ignored])
        with output.open("wb") as file:
            # Only one process keeps pytest's record of failures.
            options = [f"--junit-xml={reports[1]}", "-p", "no:cacheprovider", *BESIDE]
            command = ["nice", "-n", str(_NICE), *pytest, *options]
            beside = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            statuses = [first.wait(), beside.wait()]
        except KeyboardInterrupt:  # both had it as well, and end their sessions
            statuses = [first.wait(), beside.wait()]
        finally:
            for process in (first, beside):
                process.terminate()
                process.wait()
        print(f"\nBeside these ran {', '.join(BESIDE)}:", flush=True)
        sys.stdout.write(output.read_text(errors="replace"))
        print(closing_line(reports, time.monotonic() - began), flush=True)
    # A negative status is the number of a signal.
    return max(abs(status) for status in statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
