"""Objects by the line that made them, where they are, and who holds them. Asked for on request, and never polled."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.util.state.api import columns_of

#: The most references that are read, the most objects that are shown one by one, and the most holders of a line.
REFERENCES_MAX, OBJECTS_MAX, HOLDERS_MAX = 10_000, 500, 6
ANSWER_SECONDS = 10.0
ON_DISK = "disk"


def look(request: Request) -> Response:
    """Return the objects by line, and the largest ones."""
    found, _ = columns_of("objects", None, REFERENCES_MAX, ANSWER_SECONDS, True, False)
    return JSONResponse(
        {"lines": lines_of(found), "objects": objects_of(found), "whole": len(found) < REFERENCES_MAX}
    )


def objects_of(references: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest objects, each with all references that keep it alive."""
    objects: dict[str, dict[str, Any]] = {}
    for each in references:
        one = objects.setdefault(
            each["object_id"],
            {
                "object_id": each["object_id"],
                "size": max(0, each["object_size"]),
                "site": _site(each),
                "location": each["location"],
                "status": each["task_status"],
                "references": [],
            },
        )
        one["references"].append(
            {
                "type": each["reference_type"],
                "holder": each["holder"],
                "pid": each["pid"],
                "count": each["count"],
            }
        )
    return sorted(objects.values(), key=lambda one: -one["size"])[:OBJECTS_MAX]


def lines_of(references: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of programs that have made objects, those with most memory first. An object counts once."""
    lines: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for each in references:
        line = lines.setdefault(
            _site(each),
            {"site": _site(each), "bytes": 0, "spilled": 0, "objects": 0, "types": {}, "holders": {}},
        )
        line["types"][each["reference_type"]] = line["types"].get(each["reference_type"], 0) + 1
        line["holders"][each["holder"]] = line["holders"].get(each["holder"], 0) + 1
        if each["object_id"] in seen:
            continue
        seen.add(each["object_id"])
        size = max(0, each["object_size"])
        line["objects"] += 1
        line["bytes"] += size
        line["spilled"] += size if each["location"] == ON_DISK else 0
    for line in lines.values():
        most = sorted(line["holders"].items(), key=lambda each: -each[1])
        line["holders"] = most[:HOLDERS_MAX]
        line["more_holders"] = max(0, len(most) - HOLDERS_MAX)
    return sorted(lines.values(), key=lambda line: -line["bytes"])


def _site(reference: dict[str, Any]) -> str:
    """Return the line that made an object, or else the function whose task did."""
    site: str = reference["call_site"]
    known = ":" in site and not site.startswith(("unknown", "not recorded"))
    if known:
        return site
    return f"a value of {reference['task_name']}" if reference["task_name"] else site
