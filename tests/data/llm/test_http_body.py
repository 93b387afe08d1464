"""Payloads as bodies of requests."""

from __future__ import annotations

import json
from email.parser import BytesParser
from email.policy import HTTP

import numpy as np
import pytest

from skate.data.llm.http_body import body_of


def test_json_with_numbers_of_numpy() -> None:
    body = body_of({"n": np.int64(3), "xs": np.arange(2)}, {"Authorization": "x"})
    assert json.loads(body.content) == {"n": 3, "xs": [0, 1]}
    assert body.headers == {"Content-Type": "application/json", "Authorization": "x"}


def test_a_content_type_of_the_users_counts() -> None:
    assert body_of([], {"content-type": "text/x"}).headers == {"content-type": "text/x"}


def test_bytes_make_a_form() -> None:
    payload = {
        "file": b"\x00\xff",
        "named": {"content": "hi", "filename": 'a".txt', "content_type": "text/plain"},
        "model": "m",
        "n": 3,
    }
    body = body_of(payload, {"content-type": "text/x", "A": "b"})
    assert body.headers["A"] == "b" and "content-type" not in body.headers
    head = f"Content-Type: {body.headers['Content-Type']}\r\n\r\n".encode()
    parts = list(BytesParser(policy=HTTP).parsebytes(head + body.content).iter_parts())
    found = {
        part.get_param("name", header="content-disposition"): (
            part.get_filename(),
            part.get_payload(decode=True),
        )
        for part in parts
    }
    assert found == {
        "file": ("file", b"\x00\xff"),
        "named": ("a%22.txt", b"hi"),
        "model": (None, b"m"),
        "n": (None, b"3"),
    }


def test_what_json_has_not_is_named() -> None:
    with pytest.raises(TypeError, match="does not support object"):
        body_of({"x": object()}, {})
