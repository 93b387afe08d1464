"""The answers about jobs in the shapes of a real Ray 2.60, which `tests/dashboard/job_exchange.py` has recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.job_exchange import SHAPES, Talk, converse
from tests.process.standing import Node
from tests.process.test_jobs import TOKEN, bearer, server

#: Statuses that differ: a server whose client has made a mistake has no error of its own.
OWN_STATUS = {"delete one that runs": 400, "submit again": 400}
#: Values where Ray has none, or none where Ray has one: names, with the types that Skate has.
OWN_TYPES = {"driver_agent_http_address": {"NoneType"}}


def test_answers_about_jobs_have_the_shapes_of_ray(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start(cpus=2)
    with server(node) as process:
        found = converse(Talk(process.args[0], bearer(TOKEN)))  # type: ignore[index]
    expected: dict[str, Any] = json.loads(SHAPES.read_text())
    assert set(found) == set(expected)
    for what, shape in expected.items():
        assert found[what]["status"] == OWN_STATUS.get(what, shape["status"]), what
        assert found[what]["type"] == shape["type"], what
        compare(found[what]["keys"], shape["keys"], what)


def compare(found: Any, expected: Any, what: str) -> None:
    name = what.rpartition(" ")[2]
    if isinstance(expected, dict) and isinstance(found, dict):
        # An empty object of Ray says nothing about what may be in one.
        assert set(found) >= set(expected) and (set(found) == set(expected) or not expected), (
            what,
            found,
            expected,
        )
        for key, each in expected.items():
            compare(found[key], each, f"{what}: {key}")
    elif isinstance(expected, list) and isinstance(found, list):
        for one, other in zip(found, expected, strict=True):
            compare(one, other, what)
    else:
        kind = "dict" if isinstance(found, dict) else found
        assert kind == expected or kind in OWN_TYPES.get(name, ()), (what, found, expected)
