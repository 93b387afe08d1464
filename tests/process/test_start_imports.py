"""The start of a session loads no module that costs milliseconds and that few sessions need."""

from __future__ import annotations

import subprocess
import sys

#: Modules that came back into every start before: paths, URLs and versions cost 2 to 5 ms each, schemas of reports 15 ms.
RARELY_NEEDED = ("platform", "pathlib", "urllib.parse", "ipaddress", "skate.serve.schema.details")
PROGRAM = f"""
import sys, typing
found = []
real, typing.get_type_hints = typing.get_type_hints, lambda *given, **named: found.append(given) or real(*given, **named)
before = set(sys.modules)
import skate, skate.serve.controller.actor
skate.init(num_cpus=1, log_to_driver=False)
print(*[name for name in {RARELY_NEEDED} if name in sys.modules and name not in before])
skate.shutdown()
print(sum("skate.protocol" in str(each[0]) for each in found) < 10)  # of 119; the first messages may have arrived
"""


def test_a_session_starts_without_rarely_needed_modules_and_generated_checks() -> None:
    # Without `site`, whose path hooks load some of these modules.
    path = repr(sys.path)
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {path}\n{PROGRAM}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["", "True"], done.stdout + done.stderr
